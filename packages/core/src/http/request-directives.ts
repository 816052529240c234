// Cache-Control of a request (RFC 9111 §5.2.1). It is advice, which a cache before an origin may
// ignore. A malformed number counts as absent.

import { deltaSeconds, directivesOf } from './freshness.ts'
import { type RequestHeaders, requestField } from './headers.ts'

/** The Cache-Control directives of a request. An absent directive is false or undefined. */
export interface RequestDirectives {
  readonly noCache: boolean
  readonly noStore: boolean
  readonly onlyIfCached: boolean
  readonly maxAgeS?: number | undefined
  readonly minFreshS?: number | undefined
  /** Infinity if the directive has no number. */
  readonly maxStaleS?: number | undefined
  /** Value of `stale-if-error` (RFC 5861 §4). */
  readonly staleIfErrorS?: number | undefined
}

/** Age and remaining freshness of a stored response at the moment at which it would be sent. */
export interface StoredAge {
  readonly ageMs: number
  /** Remaining freshness. Negative if the response is stale. */
  readonly freshForMs: number
}

type Mutable = { -readonly [K in keyof RequestDirectives]: RequestDirectives[K] }

/**
 * RFC 9111 §5.2.1. `Pragma: no-cache` counts only without Cache-Control (§5.4). Undefined if the
 * request has none of these directives. https://www.rfc-editor.org/rfc/rfc9111.html#section-5.2.1
 */
export function requestDirectives(headers: RequestHeaders): RequestDirectives | undefined {
  const field = requestField(headers, 'cache-control')
  const pragma = field === undefined ? requestField(headers, 'pragma') : undefined
  const read: Mutable = { noCache: false, noStore: false, onlyIfCached: false }
  for (const [name, value] of directivesOf(field ?? '')) apply(read, name, value)
  for (const [name] of directivesOf(pragma ?? '')) read.noCache ||= name === 'no-cache'
  const hasOne = Object.values(read).some((value) => value !== false && value !== undefined)
  return hasOne ? read : undefined
}

/** Adds one directive. If a directive is repeated, the stricter value counts. */
function apply(read: Mutable, name: string, value: string | undefined): void {
  const seconds = deltaSeconds(value)
  const least = (present: number | undefined) =>
    seconds === undefined ? present : Math.min(present ?? seconds, seconds)
  if (name === 'no-cache') read.noCache = true
  else if (name === 'no-store') read.noStore = true
  else if (name === 'only-if-cached') read.onlyIfCached = true
  else if (name === 'max-age') read.maxAgeS = least(read.maxAgeS)
  else if (name === 'stale-if-error') read.staleIfErrorS = least(read.staleIfErrorS)
  else if (name === 'max-stale' && value === undefined) read.maxStaleS ??= Number.POSITIVE_INFINITY
  else if (name === 'max-stale') read.maxStaleS = least(read.maxStaleS)
  else if (name === 'min-fresh' && seconds !== undefined)
    read.minFreshS = Math.max(read.minFreshS ?? 0, seconds)
}

/** RFC 9111 §5.2.1.1 to §5.2.1.4: whether the client accepts a stored response. */
export function isAcceptable(directives: RequestDirectives | undefined, offer: StoredAge): boolean {
  if (directives === undefined) return true
  const { noCache, maxAgeS, minFreshS, maxStaleS } = directives
  if (noCache) return false
  if (maxAgeS !== undefined && offer.ageMs > maxAgeS * 1000) return false
  if (minFreshS !== undefined && offer.freshForMs < minFreshS * 1000) return false
  if (offer.freshForMs > 0) return true
  // A client that sends max-age or min-fresh without max-stale does not accept a stale response.
  if (maxStaleS === undefined) return maxAgeS === undefined && minFreshS === undefined
  return -offer.freshForMs <= maxStaleS * 1000
}

/**
 * RFC 5861 §4: whether the client accepts a stored response in place of an error.
 * https://www.rfc-editor.org/rfc/rfc5861.html#section-4
 */
export function isAcceptableOnError(
  directives: RequestDirectives | undefined,
  offer: StoredAge,
): boolean {
  if (directives?.staleIfErrorS === undefined) return isAcceptable(directives, offer)
  return -offer.freshForMs <= directives.staleIfErrorS * 1000
}
