// What a request with an idempotency key can be refused with, as problem documents (RFC 9457). The draft's statuses:
// 400, 409 and 422 (draft-ietf-httpapi-idempotency-key-header-07, §2.7). The key is never repeated in them.

import { problem } from '../http/problem.ts'
import type { HeaderList, Reply } from '../ports/exchange.ts'

export type RefusalCode =
  | 'idempotency-key-missing'
  | 'idempotency-key-invalid'
  | 'idempotency-key-duplicate'
  | 'idempotency-key-reused'
  | 'idempotency-in-progress'
  | 'idempotency-outcome-uncertain'
  | 'idempotency-response-not-retained'
  | 'idempotency-request-too-large'
  | 'idempotency-request-incomplete'
  | 'idempotency-store-unavailable'

interface Refusal {
  readonly status: number
  readonly title: string
  readonly detail: string
  /** Whether the same request may be sent again as it is. */
  readonly retryable: boolean
}

const REFUSALS: Readonly<Record<RefusalCode, Refusal>> = {
  'idempotency-key-missing': {
    status: 400,
    title: 'Idempotency-Key is missing',
    detail:
      'This operation requires an Idempotency-Key header: a new unique value for each new request.',
    retryable: false,
  },
  'idempotency-key-invalid': {
    status: 400,
    title: 'Idempotency-Key is malformed',
    detail: 'Send one value of 1 to 255 visible ASCII characters, such as a UUID.',
    retryable: false,
  },
  'idempotency-key-duplicate': {
    status: 400,
    title: 'Idempotency-Key is repeated',
    detail: 'Send one Idempotency-Key header with one value.',
    retryable: false,
  },
  'idempotency-key-reused': {
    status: 422,
    title: 'Idempotency-Key is already used',
    detail:
      'This key was used for another request. Use a new key for a new request, or send the first one unchanged.',
    retryable: false,
  },
  'idempotency-in-progress': {
    status: 409,
    title: 'A request is in progress for this Idempotency-Key',
    detail:
      'The first request with this key is still being processed. Send it again later to get its result.',
    retryable: true,
  },
  'idempotency-outcome-uncertain': {
    status: 409,
    title: 'The outcome for this Idempotency-Key is uncertain',
    detail:
      'Processing broke off, and nobody can tell yet whether the request was carried out. It is not run again.',
    retryable: false,
  },
  'idempotency-response-not-retained': {
    status: 409,
    title: 'The request was carried out before',
    detail:
      'The request with this key was carried out; its response was not kept. It is not run again.',
    retryable: false,
  },
  'idempotency-request-too-large': {
    status: 413,
    title: 'The request is too large',
    detail: 'The body is too large for a request with an Idempotency-Key.',
    retryable: false,
  },
  'idempotency-request-incomplete': {
    status: 400,
    title: 'The request is incomplete',
    detail: 'The connection broke before the whole request had come. Nothing was carried out.',
    retryable: true,
  },
  'idempotency-store-unavailable': {
    status: 503,
    title: 'Idempotency keys are unavailable',
    detail:
      'The request was not processed, since it cannot be protected from being run twice at the moment.',
    retryable: true,
  },
}

/** `docsUrl`: where the service describes its keys; the draft asks for a link to it. */
export function refuse(
  code: RefusalCode,
  docsUrl: string | undefined,
  extra: {
    readonly detail?: string
    readonly original?: { status: number; location?: string }
  } = {},
): Reply {
  const { status, title, detail, retryable } = REFUSALS[code]
  const headers: HeaderList = [
    ...(retryable ? ([['retry-after', '1']] as const) : []),
    ...(docsUrl === undefined ? [] : ([['link', `<${docsUrl}>; rel="describedby"`]] as const)),
    ...(extra.original?.location === undefined
      ? []
      : ([['location', extra.original.location]] as const)),
  ]
  const members = {
    type: docsUrl === undefined ? `urn:stampede:problem:${code}` : `${docsUrl}#${code}`,
    retryable,
    ...(extra.original && { originalStatus: extra.original.status }),
    ...(extra.original?.location && { originalLocation: extra.original.location }),
  }
  return problem(status, code, title, extra.detail ?? detail, headers, members)
}
