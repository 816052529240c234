// Each `detail` in Cache-Status, with its row in docs/guide/what-is-cached.md. A test compares them.

import type { CacheStatusFacts } from './cache-status.ts'

const BY_DIRECTIVE =
  'says so, in any spelling. `Stampede-Cache-Control` decides first, then a field of `targetedFields`, then `Cache-Control`'
const BY_VARY = 'varies on a field that is not in the key'

/** The request bypasses the cache. */
export const BYPASS_DETAILS = {
  authorization: 'has `Authorization` or another [credential field](#credential-fields)',
  'client-certificate':
    "came with a TLS client certificate, valid or not. Give an `identity`. If the response does not depend on the certificate: `authorization: { ignore: ['client-certificate'] }`",
  'connection-auth':
    'came on a connection that sent `Authorization: NTLM` or `Negotiate` before. The options for `authorization` apply',
  cookie:
    "has `Cookie`. Set `cookies: 'ignore'` or `cookies: { key: [...] }`, or give an `identity`",
  'request-body': 'has a body. Over HTTP/2 also one without `Content-Length`',
  precondition: 'has `If-Match` or `If-Unmodified-Since`',
  target: 'has a target that is no path',
  upgrade: 'asks for another protocol',
  'method-override': 'has a field such as `X-HTTP-Method-Override`',
  option: 'is named by your `bypass` option',
  'too-many-variants':
    'met three stored responses in a row that were selected by other `Vary` fields',
  closed: 'came after `close()`, or waited then',
  'not-a-response':
    'found a record of another type under its key. Only a write to the store from outside does that',
} as const

/** The response is not stored. */
export const NOT_STORED_DETAILS = {
  'set-cookie': 'sets a cookie',
  credentials:
    'has a field for one caller: `Authentication-Info`, `WWW-Authenticate`, `Authorization`, `X-Auth-Token`, `X-CSRF-Token`, `DPoP-Nonce`, `Clear-Site-Data` or another in `CREDENTIALS` of `headers.ts`. Also with `identity`',
  'self-redirect':
    'redirects to another spelling of its own URL: the host in capitals, parameters in another order, a bare `?`, another scheme. Stored, it would be served for the URL that it leads to. Not remembered',
  private: BY_DIRECTIVE,
  'no-store': BY_DIRECTIVE,
  'no-cache': BY_DIRECTIVE,
  'server-error': 'has a status of 500 or above. An older response may be served instead',
  status: 'has a status that is not stored: see [Statuses](#statuses)',
  'no-freshness': 'has no explicit freshness, and there is no `ttlMs`',
  expired: 'is stale already: `max-age=0`, a `max-age` that is no number, `Expires` in the past',
  'vary-star': BY_VARY,
  'vary-cookie': BY_VARY,
  'vary-authorization': BY_VARY,
  'cors-origin': 'allows one origin, and has no `Vary: Origin`',
  'content-range': 'is a part',
  tags: 'has no tags: the `tags` option threw or returned none, and a warning said why. Not remembered',
  'too-many-tags': 'has more than 256 [tags and groups](caching.md#tags)',
  endless: 'is a stream of events (`text/event-stream`, `multipart/x-mixed-replace`)',
  'too-large': 'has a `Content-Length` above `maxBodyBytes`',
  'origin-timeout': 'took longer than `originTimeoutMs`, so the fill was given up',
  'validator-mismatch':
    'is a 304 about another version than the stored one. Its client got the stored response',
  'inner-cache':
    'was left to an inner cache, which [tells it apart by more fields](front.md#two-layers) or has a `bypass` option for it. Not remembered',
  'hit-for-miss':
    'was not eligible for storing: the last response of this key could not be shared, and [another run](#hit-for-miss) held the lease',
  'store-unavailable':
    'was kept in this process only, for five seconds at most. The store was away, or a purge had discarded the entries of all other processes',
  'origin-failed':
    "is a problem document of Stampede, with `Retry-After` and the status of a failed run. That run ended less than `failureBackoffMs` ago, and others waited for it. Its own client got the app's error page. See [Failures](caching.md#failures)",
  'wait-timeout':
    "is of a run of its own, because another run took longer than `waitMs`. Or it is the 503 of `afterWait: 'unavailable'`",
  abandoned: 'is of a run of its own, because three runs in a row ended without a whole body',
  detached: 'was written past the middleware, so its body was not seen',
} as const

/** Served while late or still arriving; refused by the client. */
export const OTHER_DETAILS = [
  'soft-timeout',
  'origin-queue',
  'streamed',
  'request-no-store',
] as const

export type BypassDetail = keyof typeof BYPASS_DETAILS
export type NotStoredDetail = keyof typeof NOT_STORED_DETAILS
export type Detail =
  | BypassDetail
  | NotStoredDetail
  | (typeof OTHER_DETAILS)[number]
  | `stale-if-error/${number}`
  /** Only GET is stored. A response to another method says `fwd=method`, without a detail. */
  | 'method'

/** Facts with a `detail` that the guide explains. */
export type DetailedFacts = CacheStatusFacts & { readonly detail?: Detail | undefined }
