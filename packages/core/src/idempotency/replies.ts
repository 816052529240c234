// The reply to a repeat: the stored response, or a problem document (RFC 9457). Also the problem
// documents for requests whose idempotency key is missing, invalid, in use or uncertain. The
// statuses 400, 409 and 422 are those of draft-ietf-httpapi-idempotency-key-header-07, §2.7. No
// document contains the idempotency key.

import type { IdempotencyOutcome } from '../events.ts'
import { headerValue } from '../http/headers.ts'
import { problem } from '../http/problem.ts'
import type { HeaderList, Reply } from '../ports/exchange.ts'
import type { IdempotentExchange } from '../ports/idempotent-exchange.ts'
import type { Settled } from './begin.ts'
import type { KeptResponse } from './kept-response.ts'
import { decodeFor, withoutSetFields } from './replay-fields.ts'

interface Refusal {
  /** Outcome in the event `idempotency.answered`. */
  readonly outcome: IdempotencyOutcome
  readonly status: number
  readonly title: string
  readonly detail: string
  /** Whether the client may send the same request again. */
  readonly retryable?: true
}

const REFUSALS = {
  'idempotency-key-missing': {
    outcome: 'key-missing',
    status: 400,
    title: 'Idempotency-Key is missing',
    detail:
      'This operation requires an Idempotency-Key header: a new unique value for each new request.',
  },
  'idempotency-key-invalid': {
    outcome: 'key-invalid',
    status: 400,
    title: 'Idempotency-Key is malformed',
    detail: 'Send one value of 1 to 255 visible ASCII characters, such as a UUID.',
  },
  'idempotency-key-duplicate': {
    outcome: 'key-invalid',
    status: 400,
    title: 'Idempotency-Key is repeated',
    detail: 'Send one Idempotency-Key header with one value.',
  },
  'idempotency-key-reused': {
    outcome: 'key-reused',
    status: 422,
    title: 'Idempotency-Key is already used',
    detail:
      'This key was used for another request. Use a new key, or repeat the first request unchanged.',
  },
  'idempotency-in-progress': {
    outcome: 'in-progress',
    status: 409,
    title: 'A request is in progress for this Idempotency-Key',
    detail:
      'The first request with this key is still being processed. Repeat it later to get its response.',
    retryable: true,
  },
  'idempotency-outcome-uncertain': {
    outcome: 'uncertain',
    status: 409,
    title: 'The outcome for this Idempotency-Key is uncertain',
    detail:
      'Processing was interrupted, and it is not known yet whether the request was carried out. It is not run again.',
  },
  'idempotency-response-not-retained': {
    outcome: 'not-retained',
    status: 409,
    title: 'The request was carried out before',
    detail:
      'The request with this key was carried out, but its response was not kept. It is not run again.',
  },
  'idempotency-request-too-large': {
    outcome: 'too-large',
    status: 413,
    title: 'The request is too large',
    detail: 'The body is too large for a request with an Idempotency-Key. Send a smaller one.',
  },
  'idempotency-request-incomplete': {
    outcome: 'incomplete',
    status: 400,
    title: 'The request is incomplete',
    detail: 'The connection broke before the whole request had arrived. Nothing was carried out.',
    retryable: true,
  },
  'idempotency-request-ambiguous': {
    outcome: 'incomplete',
    status: 400,
    title: 'The header fields of the request are ambiguous',
    detail:
      'Send fewer header fields, and one line of each field that has one value, such as Content-Type.',
  },
  'idempotency-store-unavailable': {
    outcome: 'unavailable',
    status: 503,
    title: 'Idempotency keys are unavailable',
    detail:
      'The request was not processed, because it cannot be protected from running twice at the moment. Retry later.',
    retryable: true,
  },
  'idempotency-response-too-large': {
    outcome: 'started',
    status: 500,
    title: 'The response is too large',
    detail:
      'Nothing was carried out, because the response is larger than this server keeps. Tell its operator.',
  },
  'idempotency-transaction-failed': {
    outcome: 'started',
    status: 500,
    title: 'The transaction failed',
    detail: 'Nothing was carried out, because a statement of the transaction failed.',
  },
  'idempotency-transaction-ended': {
    outcome: 'started',
    status: 500,
    title: 'The transaction was ended by its handler',
    detail:
      'The handler ended its transaction itself, so the request is not protected. Tell its operator.',
  },
  'idempotency-outcome-unknown': {
    outcome: 'started',
    status: 503,
    title: 'The transaction did not commit, or its outcome is unknown',
    detail: 'Repeat the request with the same key. It takes effect once.',
    retryable: true,
  },
} as const

export type RefusalCode = keyof typeof REFUSALS

export interface Refused {
  readonly outcome: IdempotencyOutcome
  readonly reply: Reply
}

/** The problem document for a refusal. The draft asks for a link to `docsUrl`. */
export function refuse(
  code: RefusalCode,
  docsUrl: string | undefined,
  { detail, original }: { detail?: string | undefined; original?: KeptResponse } = {},
): Refused {
  const refusal: Refusal = REFUSALS[code]
  const { status, title, outcome, retryable = false } = refusal
  const headers: Array<HeaderList[number]> = []
  if (retryable) headers.push(['retry-after', '1'])
  if (docsUrl !== undefined) headers.push(['link', `<${docsUrl}>; rel="describedby"`])
  const location = original && headerValue(original.headers, 'location')
  if (location !== undefined) headers.push(['location', location])
  const members = {
    type: docsUrl === undefined ? `urn:stampede:problem:${code}` : `${docsUrl}#${code}`,
    retryable,
    ...(original && { originalStatus: original.status }),
    ...(location && { originalLocation: location }),
  }
  const reply = problem(status, code, title, detail ?? refusal.detail, headers, members)
  return { outcome, reply }
}

export const REPLAYED: Readonly<Record<'l1' | 'store' | 'wait', IdempotencyOutcome>> = {
  l1: 'replayed-l1',
  store: 'replayed',
  wait: 'replayed-after-wait',
}

const CODES: Readonly<Record<Exclude<Settled['type'], 'done'>, RefusalCode>> = {
  mismatch: 'idempotency-key-reused',
  busy: 'idempotency-in-progress',
  uncertain: 'idempotency-outcome-uncertain',
  // The handler completed, so it must not run again.
  unreadable: 'idempotency-response-not-retained',
  unavailable: 'idempotency-store-unavailable',
}

export function replyFor(
  settled: Settled,
  docsUrl: string | undefined,
  exchange: Pick<IdempotentExchange, 'request' | 'isSet'>,
): Refused {
  if (settled.type !== 'done') return refuse(CODES[settled.type], docsUrl)
  const { kept, from } = settled
  if (kept.type === 'value') return refuse(CODES.unreadable, docsUrl)
  const { status, body: stored, kind: asStored } = kept
  if (stored === undefined) return refuse(CODES.unreadable, docsUrl, { original: kept })
  const accepts = exchange.request.headers['accept-encoding']?.toString()
  const fields = withoutSetFields(kept.headers, (name) => exchange.isSet(name))
  const { headers, body } = decodeFor(accepts, fields, stored)
  const kind = body === stored ? asStored : undefined
  const marked = [...headers, ['idempotency-replayed', 'true'] as const]
  return { outcome: REPLAYED[from], reply: { status, headers: marked, body, kind } }
}
