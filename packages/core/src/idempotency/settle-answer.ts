// What an attempt came to, by how its handler answered and what it said besides.

import { headerValue } from '../http/headers.ts'
import type { CapturedHead } from '../ports/exchange.ts'
import type { AttemptEnd } from '../ports/idempotent-exchange.ts'
import type { Said } from './attempt.ts'
import { isKept, replayableHeaders } from './replayable.ts'
import type { Outcome } from './running.ts'

/** Undefined: nobody knows; the lease is left to run out, and then `onLeaseExpired` decides. */
export function settleAnswer(end: AttemptEnd, said: Readonly<Said>): Outcome | undefined {
  const { verdict, keepsBody } = said
  if (verdict === 'uncertain') return { as: 'uncertain' }
  if (verdict === 'release') return { as: 'released' }
  if (end.type === 'unanswered') return undefined
  if (end.type === 'failed') return verdict === 'keep' ? { as: 'uncertain' } : { as: 'released' }
  const { head } = end
  if (verdict !== 'keep' && !isKept(head.status)) return { as: 'released' }
  if (end.type === 'not-retained' || !keepsBody) return notRetained(head)
  const headers = replayableHeaders(head.headers)
  return {
    as: 'completed',
    kept: { type: 'response', status: head.status, headers, body: end.body },
  }
}

function notRetained({ status, headers }: CapturedHead): Outcome {
  const location = headerValue(headers, 'location')
  return { as: 'completed', kept: { type: 'not-retained', status, location } }
}
