// Cache-Control of a request (RFC 9111 §5.2.1): advice, which a cache in front of an origin need
// not take. Numbers that cannot be read are treated as absent.

import { deltaSeconds, directivesOf } from './cache-control.ts'
import { type RequestHeaders, requestField } from './headers.ts'

export interface RequestDirectives {
  readonly noCache: boolean
  readonly noStore: boolean
  readonly onlyIfCached: boolean
  readonly maxAgeS: number | undefined
  readonly minFreshS: number | undefined
  /** Without a number: however stale. */
  readonly maxStaleS: number | undefined
  /** RFC 5861 §4. */
  readonly staleIfErrorS: number | undefined
}

/** A stored answer, at the moment it would be given. */
export interface Offer {
  readonly ageMs: number
  /** Negative once stale. */
  readonly freshForMs: number
}

type Mutable = { -readonly [K in keyof RequestDirectives]: RequestDirectives[K] }

/**
 * RFC 9111 §5.2.1, and §5.4: `Pragma: no-cache` only without Cache-Control. `undefined` if nothing of it was said.
 * https://www.rfc-editor.org/rfc/rfc9111.html#section-5.2.1
 */
export function requestDirectives(headers: RequestHeaders): RequestDirectives | undefined {
  const field = requestField(headers, 'cache-control')
  const pragma = field === undefined ? requestField(headers, 'pragma') : undefined
  const read: Mutable = { ...NOTHING }
  for (const [name, value] of directivesOf(field ?? '')) take(read, name, value)
  for (const [name] of directivesOf(pragma ?? '')) read.noCache ||= name === 'no-cache'
  const said = (Object.keys(NOTHING) as Array<keyof Mutable>).some((k) => read[k] !== NOTHING[k])
  return said ? read : undefined
}

const NOTHING: RequestDirectives = {
  noCache: false,
  noStore: false,
  onlyIfCached: false,
  maxAgeS: undefined,
  minFreshS: undefined,
  maxStaleS: undefined,
  staleIfErrorS: undefined,
}

/** Of a repeated one the stricter counts. */
function take(read: Mutable, name: string, value: string | undefined): void {
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

/** RFC 9111 §5.2.1.1 to §5.2.1.4: whether the client takes it. */
export function isWelcome(wish: RequestDirectives | undefined, offer: Offer): boolean {
  if (wish === undefined) return true
  const { noCache, maxAgeS, minFreshS, maxStaleS } = wish
  if (noCache) return false
  if (maxAgeS !== undefined && offer.ageMs > maxAgeS * 1000) return false
  if (minFreshS !== undefined && offer.freshForMs < minFreshS * 1000) return false
  if (offer.freshForMs > 0) return true
  // Who says how old or how fresh, and not how stale, wants nothing stale.
  if (maxStaleS === undefined) return maxAgeS === undefined && minFreshS === undefined
  return -offer.freshForMs <= maxStaleS * 1000
}

/** RFC 5861 §4: whether it may stand in for an error. https://www.rfc-editor.org/rfc/rfc5861.html#section-4 */
export function isWelcomeOnError(wish: RequestDirectives | undefined, offer: Offer): boolean {
  if (wish?.staleIfErrorS === undefined) return isWelcome(wish, offer)
  return -offer.freshForMs <= wish.staleIfErrorS * 1000
}
