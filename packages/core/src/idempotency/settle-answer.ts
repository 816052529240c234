// The outcome of an attempt, derived from the handler's response and its calls on the attempt.

import type { AttemptEnd } from '../ports/idempotent-exchange.ts'
import type { Decisions } from './attempt.ts'
import { type Kept, withoutBody } from './kept-response.ts'
import { isFinal, replayableHeaders } from './replayable.ts'
import type { Outcome } from './running.ts'

/**
 * Returns the outcome. If it is unknown (undefined), the lease expires, and `onLeaseExpired`
 * decides.
 */
export function outcomeOf(end: AttemptEnd, decisions: Readonly<Decisions>): Outcome | undefined {
  const { verdict, keepsBody } = decisions
  if (verdict === 'uncertain') return { as: 'uncertain' }
  if (verdict === 'release') return { as: 'released' }
  if (end.type === 'unanswered') return undefined
  if (end.type === 'failed') return verdict === 'keep' ? { as: 'uncertain' } : { as: 'released' }
  const { head } = end
  if (verdict !== 'keep' && !isFinal(head.status)) return { as: 'released' }
  const isWhole = end.type === 'answered'
  const { body, kind } = isWhole ? end : { body: new Uint8Array(), kind: undefined }
  const { status } = head
  const headers = replayableHeaders(head.headers)
  const kept: Kept = { type: 'response', status, headers, body, kind }
  return { as: 'completed', kept: isWhole && keepsBody ? kept : withoutBody(kept) }
}
