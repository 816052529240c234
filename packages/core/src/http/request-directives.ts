// Cache-Control of a request (RFC 9111 §5.2.1). It is advice, which a cache before an origin may
// ignore. A malformed number counts as absent.

import { type CacheControl, deltaSeconds, directivesOf } from './freshness.ts'
import { type RequestHeaders, requestField } from './headers.ts'

/** Age and remaining freshness of a stored response at the moment at which it would be sent. */
export interface StoredAge {
  readonly ageMs: number
  /** Remaining freshness. Negative if the response is stale. */
  readonly freshForMs: number
}

const FLAGS: ReadonlySet<string> = new Set(['no-cache', 'no-store', 'only-if-cached'])

/** A request without directives. */
export const NO_DIRECTIVES: CacheControl = new Map()

/**
 * RFC 9111 §5.2.1. `Pragma: no-cache` counts only without Cache-Control (§5.4). If a directive is
 * repeated, the stricter value counts. The value of `max-stale` without a number is Infinity.
 * https://www.rfc-editor.org/rfc/rfc9111.html#section-5.2.1
 */
export function requestDirectives(headers: RequestHeaders): CacheControl {
  const field = requestField(headers, 'cache-control')
  const read = new Map<string, number>()
  for (const [name, value] of directivesOf(field ?? requestField(headers, 'pragma') ?? '')) {
    if (field === undefined && name !== 'no-cache') continue
    const needsNoNumber = FLAGS.has(name) || (name === 'max-stale' && value === undefined)
    const number = needsNoNumber ? Number.POSITIVE_INFINITY : deltaSeconds(value)
    if (number === undefined) continue
    const stricter = name === 'min-fresh' ? Math.max : Math.min
    read.set(name, stricter(read.get(name) ?? number, number))
  }
  return read
}

/** RFC 9111 §5.2.1.1 to §5.2.1.4: whether the client accepts a stored response. */
export function isAcceptable(directives: CacheControl, offer: StoredAge): boolean {
  if (directives.has('no-cache')) return false
  const maxAgeS = directives.get('max-age')
  const minFreshS = directives.get('min-fresh')
  const maxStaleS = directives.get('max-stale')
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
export function isAcceptableOnError(directives: CacheControl, offer: StoredAge): boolean {
  const seconds = directives.get('stale-if-error')
  if (seconds === undefined) return isAcceptable(directives, offer)
  return -offer.freshForMs <= seconds * 1000
}
