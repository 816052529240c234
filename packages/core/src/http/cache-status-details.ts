// All `detail` values in Cache-Status. docs/guide/what-is-cached.md has a row for each (tested).

import type { CacheStatusFacts } from './cache-status.ts'

/** Reasons for which a request bypasses the cache. */
export const BYPASS_DETAILS = [
  'authorization',
  'client-certificate',
  'connection-auth',
  'cookie',
  'request-body',
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
 * Other details. A stale response was served, a response was served while its body arrived, or the
 * client did not want the response to be stored.
 */
export const OTHER_DETAILS = ['soft-timeout', 'origin-queue', 'request-no-store'] as const

export type BypassDetail = (typeof BYPASS_DETAILS)[number]
export type NotStoredDetail = (typeof NOT_STORED_DETAILS)[number]
export type Detail =
  | BypassDetail
  | NotStoredDetail
  | (typeof OTHER_DETAILS)[number]
  | `stale-if-error/${number}`
  /** Internal only. A request with a method other than GET has `fwd=method` and no detail. */
  | 'method'

/** Facts for Cache-Status with a `detail` from the lists above. */
export type DetailedFacts = CacheStatusFacts & { readonly detail?: Detail | undefined }
