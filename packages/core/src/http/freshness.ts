// The directives of a response and of a request, the explicit lifetime and the age of a response.
// The file cache/storable.ts computes the lifetime of the entry from them. The directives of a
// response are those of Cache-Control, or of a targeted field in its place. An ambiguous field gets
// its more restrictive meaning (RFC 9111 §4.2.1), because the other could leak a private response.

import type { HeaderList } from '../ports/exchange.ts'
import { headerValue, headerValues, type RequestHeaders, requestField, trimOws } from './headers.ts'
import { type Member, parseDictionary } from './structured-fields.ts'

/**
 * Directives by name, in lower case. The value is a number of seconds. A directive that needs none,
 * such as `no-store`, has 0 in a response and Infinity in a request. An invalid number is 0 in a
 * response. In a request, its directive is left out. `must-understand` is not used: RFC 9111
 * §5.2.2.3 would allow a cache to ignore `no-store` beside it.
 */
export type CacheControl = ReadonlyMap<string, number>

/** RFC 9111 §1.2.2: larger numbers of seconds are replaced by this one. */
export const LARGEST_SECONDS: number = 2 ** 31

/**
 * A directive in one of the forms `name`, `name=value` and `name="quoted, value"`. All other text
 * is a separator. So directives also count in `public; private`, in `"no-store"`, and after a quote
 * that is never closed.
 */
const DIRECTIVE = /([\w-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?/g

/**
 * Parses Cache-Control of a response (RFC 9111 §5.2.2, RFC 5861 §3 and §4). `values` has one
 * element per line of the field. A qualified form (`no-cache="x"`) counts as unqualified. If a
 * directive is repeated, the shortest time counts.
 */
export function parseCacheControl(values: readonly string[]): CacheControl {
  const read = new Map<string, number>()
  for (const line of values) {
    for (const [name, value] of directivesOf(line))
      read.set(name, Math.min(read.get(name) ?? LARGEST_SECONDS, deltaSeconds(value) ?? 0))
  }
  return read
}

/** The directives of one line, with lower-case names, and values without quotes. */
export function* directivesOf(line: string): Generator<[name: string, value: string | undefined]> {
  for (const [, name = '', quoted, token] of line.matchAll(DIRECTIVE)) {
    yield [name.toLowerCase(), quoted ?? token]
  }
}

/** RFC 9111 §1.2.2: a number of seconds. Undefined for text with other characters than digits. */
export function deltaSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d+$/.test(text)) return undefined
  return Math.min(Number(text), LARGEST_SECONDS)
}

// Targeted cache fields (RFC 9213). They replace Cache-Control and Expires for this cache. Other
// caches, between the client and this one, still use Cache-Control and Expires.
// https://www.rfc-editor.org/rfc/rfc9213.html#section-2

export interface Directives {
  readonly cc: CacheControl
  /** Whether the directives are from a targeted field. Then Expires is ignored too. */
  readonly targeted: boolean
}

/**
 * RFC 9213 §2.2: directives of the first field in `targets` that is valid and not empty, else of
 * Cache-Control. Names in `targets` are lower-case. Without any of these fields, `Pragma: no-cache`
 * counts (RFC 9111 §5.4). https://www.rfc-editor.org/rfc/rfc9213.html#section-2.2
 */
export function responseDirectives(headers: HeaderList, targets: readonly string[]): Directives {
  for (const name of targets) {
    const lines = headerValues(headers, name)
    const members = lines.length === 0 ? undefined : parseDictionary(lines)
    if (members !== undefined && members.size > 0)
      return { cc: toCacheControl(members), targeted: true }
  }
  const lines = headerValues(headers, 'cache-control')
  const pragma = lines.length > 0 ? [] : headerValues(headers, 'pragma')
  const hasPragma = pragma.length > 0 && parseCacheControl(pragma).has('no-cache')
  return { cc: parseCacheControl(hasPragma ? ['no-cache'] : lines), targeted: false }
}

/** Directives with a time. */
const TIMES: ReadonlySet<string> = new Set([
  ...['max-age', 's-maxage', 'stale-while-revalidate', 'stale-if-error'],
])

/**
 * The value false turns a directive off. Each other value turns it on, also one of a wrong type. So
 * `private="x-id"` counts as `private` without a field name, which forbids more. A time of a wrong
 * type, also false, is not converted (RFC 9213 §2.1). It counts as expired (RFC 9111 §4.2.1).
 * https://www.rfc-editor.org/rfc/rfc9213.html#section-2.1
 */
function toCacheControl(members: ReadonlyMap<string, Member>): CacheControl {
  const read = new Map<string, number>()
  for (const [name, member] of members) {
    if (member.type === 'boolean' && !member.value && !TIMES.has(name)) continue
    const seconds = member.type === 'integer' ? member.value : 0
    read.set(name, Math.min(Math.max(seconds, 0), LARGEST_SECONDS))
  }
  return read
}

// Cache-Control of a request. It is advice, which a cache before an origin may ignore.

/** Age and remaining freshness of a stored response at the moment at which it would be sent. */
export interface StoredAge {
  readonly ageMs: number
  /** Remaining freshness. Negative if the response is stale. */
  readonly freshForMs: number
}

/** Directives of a request that need no number. */
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

// Explicit lifetime and age of a response, by its header fields.

/**
 * RFC 9111 §4.2.1, for a shared cache: s-maxage, else max-age, else Expires. A targeted field
 * replaces Expires too (RFC 9213 §2.2). `wallNow` is Unix time in ms.
 */
export function explicitLifetimeMs(
  { cc, targeted }: Directives,
  headers: HeaderList,
  wallNow: number,
): number | undefined {
  const seconds = cc.get('s-maxage') ?? cc.get('max-age')
  if (seconds !== undefined) return seconds * 1000
  if (targeted) return undefined
  // RFC 9111 §5.3: Expires − Date. An invalid date, as in `Expires: 0`, is in the past.
  const lines = headerValues(headers, 'expires')
  if (lines.length === 0) return undefined
  const earliest = Math.min(...lines.map((line) => parseHttpDate(line) ?? Number.NEGATIVE_INFINITY))
  const date = parseHttpDate(headerValue(headers, 'date') ?? '') ?? wallNow
  return Math.max(0, earliest - date)
}

/**
 * RFC 9111 §4.2.3: the larger of Age and the time since Date, in ms. It is rounded to whole
 * seconds, since a Date has no smaller unit. The first member of Age counts (§5.1), and a malformed
 * one is ignored. `wallNow` is Unix time in ms.
 */
export function initialAgeMs(headers: HeaderList, wallNow: number): number {
  const age = headerValue(headers, 'age')
  const ageS = age === undefined ? 0 : (deltaSeconds(trimOws(age.split(',', 1)[0] ?? '')) ?? 0)
  const date = headerValue(headers, 'date')
  const bornAt = (date === undefined ? undefined : parseHttpDate(date)) ?? wallNow
  return Math.max(ageS, Math.min(Math.floor((wallNow - bornAt) / 1000), LARGEST_SECONDS)) * 1000
}

/** RFC 9111 §4.2.4: false if a directive forbids stale responses. No option can allow them then. */
export function staleWindowsAllowed(cc: CacheControl): boolean {
  return !['must-revalidate', 'proxy-revalidate', 'no-cache', 's-maxage'].some((it) => cc.has(it))
}

const MONTHS = 'janfebmaraprmayjunjulaugsepoctnovdec'
const IMF_FIXDATE = /^[a-z]{3}, (\d\d) ([a-z]{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/i
const RFC850_DATE = /^[a-z]{6,9}, (\d\d)-([a-z]{3})-(\d\d) (\d\d):(\d\d):(\d\d) GMT$/i
const ASCTIME_DATE = /^[a-z]{3} ([a-z]{3}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})$/i

/**
 * RFC 9110 §5.6.7: a date as Unix time in ms. Case does not matter (RFC 9111 §4.2). `Date.parse` is
 * not used, because it accepts `0` and other text that is no HTTP date.
 */
export function parseHttpDate(text: string): number | undefined {
  const value = trimOws(text)
  const fixed = IMF_FIXDATE.exec(value) ?? RFC850_DATE.exec(value)
  if (fixed !== null) {
    const [, day, month, year, hour, minute, second] = fixed
    return toTime(year, month, day, hour, minute, second)
  }
  const [, month, day, hour, minute, second, year] = ASCTIME_DATE.exec(value) ?? []
  return toTime(year, month, day, hour, minute, second)
}

function toTime(
  yearText = '',
  monthName = '?',
  ...rest: ReadonlyArray<string | undefined>
): number | undefined {
  const [day = 0, hour = 24, minute = 60, second = 61] = rest.map(Number)
  const month = MONTHS.indexOf(monthName.toLowerCase()) / 3
  if (!Number.isInteger(month) || month < 0) return undefined
  if (hour > 23 || minute > 59 || second > 60) return undefined
  const time = new Date(0)
  time.setUTCFullYear(fullYear(yearText), month, day)
  // A day that the month does not have, such as 31 April, moves the date into the next month.
  if (time.getUTCMonth() !== month) return undefined
  return time.setUTCHours(hour, minute, second)
}

/** RFC 9110 §5.6.7: a year of two digits is not more than about 50 years ahead. */
function fullYear(text: string): number {
  const year = Number(text)
  if (text.length > 2) return year
  return year < 70 ? 2000 + year : 1900 + year
}
