// The facts and reasons in the Cache-Status field (RFC 9211): how the cache handled a request.
// The file cache/respond.ts writes the field.

import { LATE_REASONS, type LateReason } from '../events.ts'

/** RFC 9211 §2.2: the reason for which a request was forwarded to the origin. */
export type ForwardReason =
  | 'bypass'
  | 'method'
  | 'uri-miss'
  | 'vary-miss'
  | 'miss'
  | 'request'
  | 'stale'
  | 'partial'

/** The facts of one request. */
export interface CacheStatusFacts {
  /** Why the request was forwarded. Undefined: it was a hit. */
  readonly fwd?: ForwardReason | undefined
  /** Status of the origin's response, if the client got another one. */
  readonly status?: number | undefined
  /** Remaining seconds of freshness. Negative if a stale response was served. */
  readonly ttlS?: number | undefined
  readonly stored?: boolean | undefined
  /** `true`: the request got the response of another one. `false`: it waited without success. */
  readonly collapsed?: boolean | undefined
  readonly detail?: Detail | undefined
}

// All `detail` values. Each is a token (RFC 9651 §3.3.4). docs/guide/why-nothing-is-cached.md has a
// row for each (tested).

/** Reasons for which a request bypasses the cache. */
export const BYPASS_DETAILS = [
  'authorization',
  'client-certificate',
  'connection-auth',
  'cookie',
  'request-body',
  'body-too-large',
  'content-type',
  'precondition',
  'target',
  'upgrade',
  'method-override',
  'cut-head',
  'repeated-field',
  'option',
  'too-many-variants',
  'closed',
  'not-a-response',
] as const

/** Reasons for which a response is not stored. */
export const NOT_STORED_DETAILS = [
  'set-cookie',
  'credentials',
  'self-redirect',
  'private',
  'no-store',
  'no-cache',
  'server-error',
  'status',
  'no-freshness',
  'expired',
  'vary-star',
  'vary-cookie',
  'vary-authorization',
  'cors-origin',
  'content-range',
  'tags',
  'too-many-tags',
  'endless',
  'too-large',
  'origin-timeout',
  'validator-mismatch',
  'inner-cache',
  'hit-for-miss',
  'store-unavailable',
  'origin-failed',
  'wait-timeout',
  'abandoned',
  'detached',
] as const

/**
 * Reasons that may hold for one request only, so the key does not become hit-for-miss: the `tags`
 * callback failed, an inner cache stores the response, one spelling of the URL was redirected.
 */
export const OF_ONE_REQUEST: ReadonlySet<string> = new Set(['tags', 'inner-cache', 'self-redirect'])

/**
 * Other details. A stale response was served, a response was served while its body arrived, or the
 * client did not want the response to be stored.
 */
export const OTHER_DETAILS: readonly OtherDetail[] = [...LATE_REASONS, 'request-no-store']

type OtherDetail = LateReason | 'request-no-store'
export type BypassDetail = (typeof BYPASS_DETAILS)[number]
export type NotStoredDetail = (typeof NOT_STORED_DETAILS)[number]
export type Detail =
  | BypassDetail
  | NotStoredDetail
  | OtherDetail
  | `stale-if-error/${number}`
  /** Internal only. A request with a method other than GET has `fwd=method` and no detail. */
  | 'method'
