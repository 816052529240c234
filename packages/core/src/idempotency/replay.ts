// The answer to a duplicate: what the handler answered then, or why it is not run again.

import type { IdempotencyOutcome } from '../events.ts'
import type { Reply } from '../ports/exchange.ts'
import type { IdempotentExchange } from '../ports/idempotent-exchange.ts'
import { type RefusalCode, refuse } from './idempotency-problems.ts'
import type { Kept } from './kept-response.ts'
import type { Obtained } from './obtain.ts'
import { decodeFor, headersBeside } from './replayable.ts'

/** Everything but the right to run it. */
export type Settled = Exclude<Obtained, { type: 'run' }>

export interface Replay {
  readonly outcome: IdempotencyOutcome
  readonly reply: Reply
}

export const REPLAYED: Readonly<Record<'l1' | 'store' | 'wait', IdempotencyOutcome>> = {
  l1: 'replayed-l1',
  store: 'replayed',
  wait: 'replayed-after-wait',
}

const REFUSED: Readonly<
  Record<Exclude<Settled['type'], 'done'>, [IdempotencyOutcome, RefusalCode]>
> = {
  mismatch: ['key-reused', 'idempotency-key-reused'],
  busy: ['in-progress', 'idempotency-in-progress'],
  uncertain: ['uncertain', 'idempotency-outcome-uncertain'],
  // It was done; running it again is the one thing that must not happen.
  unreadable: ['not-retained', 'idempotency-response-not-retained'],
}

export function replyFor(
  settled: Settled,
  docsUrl: string | undefined,
  { request, isSet }: Pick<IdempotentExchange, 'request' | 'isSet'>,
): Replay {
  if (settled.type !== 'done') {
    const [outcome, code] = REFUSED[settled.type]
    return { outcome, reply: refuse(code, docsUrl) }
  }
  const { kept, from } = settled
  if (kept.type !== 'response') return notRetained(kept, docsUrl)
  const accepts = request.headers['accept-encoding']?.toString()
  const { headers, body } = decodeFor(accepts, headersBeside(kept.headers, isSet), kept.body)
  const marked = [...headers, ['idempotency-replayed', 'true'] as const]
  return { outcome: REPLAYED[from], reply: { status: kept.status, headers: marked, body } }
}

function notRetained(
  kept: Exclude<Kept, { type: 'response' }>,
  docsUrl: string | undefined,
): Replay {
  const code = 'idempotency-response-not-retained'
  if (kept.type === 'value') return { outcome: 'not-retained', reply: refuse(code, docsUrl) }
  const { status, location } = kept
  const original = location === undefined ? { status } : { status, location }
  return { outcome: 'not-retained', reply: refuse(code, docsUrl, { original }) }
}
