// The reply to a repeat of a request: the stored response, or the reason why there is none.

import type { IdempotencyOutcome } from '../events.ts'
import type { IdempotentExchange } from '../ports/idempotent-exchange.ts'
import { type RefusalCode, type Refused, refuse } from './idempotency-problems.ts'
import type { Obtained } from './obtain.ts'
import { decodeFor, withoutSetFields } from './replayable.ts'

/** Each result of `obtain` except a new attempt. */
export type Settled = Exclude<Obtained, { type: 'run' }>

export const REPLAYED: Readonly<Record<'l1' | 'store' | 'wait', IdempotencyOutcome>> = {
  l1: 'replayed-l1',
  store: 'replayed',
  wait: 'replayed-after-wait',
}

const REFUSED: Readonly<Record<Exclude<Settled['type'], 'done'>, RefusalCode>> = {
  mismatch: 'idempotency-key-reused',
  busy: 'idempotency-in-progress',
  uncertain: 'idempotency-outcome-uncertain',
  // The handler completed, so it must not run again.
  unreadable: 'idempotency-response-not-retained',
}

export function replyFor(
  settled: Settled,
  docsUrl: string | undefined,
  { request, isSet }: Pick<IdempotentExchange, 'request' | 'isSet'>,
): Refused {
  if (settled.type !== 'done') return refuse(REFUSED[settled.type], docsUrl)
  const { kept, from } = settled
  if (kept.type === 'value') return refuse(REFUSED.unreadable, docsUrl)
  if (kept.type === 'not-retained') {
    const { status, location } = kept
    const original = location === undefined ? { status } : { status, location }
    return refuse(REFUSED.unreadable, docsUrl, { original })
  }
  const accepts = request.headers['accept-encoding']?.toString()
  const { headers, body } = decodeFor(accepts, withoutSetFields(kept.headers, isSet), kept.body)
  const kind = body === kept.body ? kept.kind : undefined
  const marked = [...headers, ['idempotency-replayed', 'true'] as const]
  return { outcome: REPLAYED[from], reply: { status: kept.status, headers: marked, body, kind } }
}
