// The Cache-Status field (RFC 9211), which shows how the cache handled a request.

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

export interface HitFacts {
  readonly type: 'hit'
  /** Remaining seconds of freshness. Negative if a stale response was served. */
  readonly ttlS: number
  readonly detail?: string | undefined
}

export interface ForwardFacts {
  readonly type: 'forward'
  readonly reason: ForwardReason
  /** Status of the origin's response, if the client got another one. */
  readonly status?: number | undefined
  readonly ttlS?: number | undefined
  readonly stored?: boolean | undefined
  /** `true`: the request got the response of another one. `false`: it waited without success. */
  readonly collapsed?: boolean | undefined
  readonly detail?: string | undefined
}

export type CacheStatusFacts = HitFacts | ForwardFacts

/**
 * RFC 9211 §2: the value of the field. `name` is a token, which the option ensures. The field never
 * has the parameter `key`, because the key contains data of the request.
 */
export function cacheStatus(name: string, facts: CacheStatusFacts): string {
  let text = name
  if (facts.type === 'hit') {
    text = hitStatus(name, Math.floor(facts.ttlS))
  } else {
    text += `; fwd=${facts.reason}`
    text += integer('fwd-status', facts.status) + integer('ttl', facts.ttlS)
    // RFC 9651 §4.1.1.2: a parameter that is true has no value.
    if (facts.stored !== undefined) text += facts.stored ? '; stored' : '; stored=?0'
    if (facts.collapsed !== undefined) text += facts.collapsed ? '; collapsed' : '; collapsed=?0'
  }
  return facts.detail === undefined ? text : `${text}; detail=${tokenOrString(facts.detail)}`
}

interface HitText {
  readonly name: string
  readonly ttlS: number
  readonly text: string
}

/**
 * Values for recent hits, by the last bits of `ttlS`. A new string for each hit would cost 5 % of
 * the CPU of a hit on Koa, because Node joins and validates it again.
 */
const recentHits: Array<HitText | undefined> = Array.from({ length: 256 })

function hitStatus(name: string, ttlS: number): string {
  const slot = ttlS & 255
  let recent = recentHits[slot]
  if (recent?.ttlS !== ttlS || recent.name !== name) {
    recent = { name, ttlS, text: `${name}; hit${integer('ttl', ttlS)}` }
    recentHits[slot] = recent
  }
  return recent.text
}

const LARGEST_INTEGER = 999_999_999_999_999

/** RFC 9651 §4.1.4. Rounds down, so a response that is stale for less than 1 s has `ttl=-1`. */
function integer(name: string, value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return ''
  const whole = Math.max(-LARGEST_INTEGER, Math.min(LARGEST_INTEGER, Math.floor(value)))
  return `; ${name}=${whole}`
}

/** A token (RFC 9651 §3.3.4). */
export const TOKEN: RegExp = /^[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*$/

/** RFC 9651 §4.1.6 and §4.1.7: a string has only printable ASCII characters. */
function tokenOrString(text: string): string {
  if (TOKEN.test(text)) return text
  return `"${text.replace(/[^\x20-\x7e]/g, '?').replace(/["\\]/g, '\\$&')}"`
}

// All `detail` values. docs/guide/why-nothing-is-cached.md has a row for each (tested).

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

/** Facts for Cache-Status with a `detail` from the lists above. */
export type DetailedFacts = CacheStatusFacts & { readonly detail?: Detail | undefined }
