// The directives of a response, its explicit lifetime and its age. The file cache/storable.ts
// computes the lifetime of the entry from them. The directives are those of Cache-Control, or of a
// targeted field in its place. An ambiguous field gets its more restrictive meaning (RFC 9111
// §4.2.1), because the other meaning could leak a private response.

import type { HeaderList } from '../ports/exchange.ts'
import { headerValue, headerValues, trimOws } from './headers.ts'
import { type Member, parseDictionary } from './structured-fields.ts'

/**
 * The Cache-Control directives of a response that this cache uses. An absent directive is false or
 * undefined. `must-understand` is not used: RFC 9111 §5.2.2.3 would allow a cache to ignore
 * `no-store` beside it.
 */
export interface CacheControl {
  /** Whether the response has a Cache-Control field, even an empty one. */
  readonly present: boolean
  readonly noStore: boolean
  /** A qualified form (`no-cache="x"`) counts as unqualified. The same holds for `private`. */
  readonly noCache: boolean
  readonly private: boolean
  readonly mustRevalidate: boolean
  readonly proxyRevalidate: boolean
  readonly maxAgeS?: number | undefined
  readonly sMaxageS?: number | undefined
  readonly staleWhileRevalidateS?: number | undefined
  readonly staleIfErrorS?: number | undefined
}

/** RFC 9111 §1.2.2: larger numbers of seconds are replaced by this one. */
export const LARGEST_SECONDS: number = 2 ** 31

type Flag = keyof {
  [K in keyof CacheControl as CacheControl[K] extends boolean ? K : never]: true
}
type Seconds = Exclude<keyof CacheControl, Flag>

const FLAGS: ReadonlyMap<string, Flag> = new Map<string, Flag>([
  ['no-store', 'noStore'],
  ['no-cache', 'noCache'],
  ['private', 'private'],
  ['must-revalidate', 'mustRevalidate'],
  ['proxy-revalidate', 'proxyRevalidate'],
])

const SECONDS: ReadonlyMap<string, Seconds> = new Map<string, Seconds>([
  ['max-age', 'maxAgeS'],
  ['s-maxage', 'sMaxageS'],
  ['stale-while-revalidate', 'staleWhileRevalidateS'],
  ['stale-if-error', 'staleIfErrorS'],
])

/**
 * A directive in one of the forms `name`, `name=value` and `name="quoted, value"`. All other text
 * is a separator. So directives also count in `public; private`, in `"no-store"`, and after a quote
 * that is never closed.
 */
const DIRECTIVE = /([\w-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s,;"]*)))?/g

type Mutable = { -readonly [K in keyof CacheControl]: CacheControl[K] }

function noDirectives(present: boolean): Mutable {
  return {
    present,
    noStore: false,
    noCache: false,
    private: false,
    mustRevalidate: false,
    proxyRevalidate: false,
  }
}

/**
 * Parses Cache-Control of a response (RFC 9111 §5.2.2, RFC 5861 §3 and §4). `values`
 * has one element per line of the field.
 */
export function parseCacheControl(values: readonly string[]): CacheControl {
  const read = noDirectives(values.length > 0)
  for (const line of values) {
    for (const [name, value] of directivesOf(line)) {
      const flag = FLAGS.get(name)
      if (flag !== undefined) read[flag] = true
      const seconds = SECONDS.get(name)
      if (seconds === undefined) continue
      read[seconds] = Math.min(read[seconds] ?? LARGEST_SECONDS, deltaSeconds(value) ?? 0)
    }
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
 * Cache-Control. Names in `targets` are lower-case.
 * https://www.rfc-editor.org/rfc/rfc9213.html#section-2.2
 */
export function responseDirectives(headers: HeaderList, targets: readonly string[]): Directives {
  for (const name of targets) {
    const lines = headerValues(headers, name)
    const members = lines.length === 0 ? undefined : parseDictionary(lines)
    if (members !== undefined && members.size > 0)
      return { cc: toCacheControl(members), targeted: true }
  }
  return { cc: parseCacheControl(headerValues(headers, 'cache-control')), targeted: false }
}

function toCacheControl(members: ReadonlyMap<string, Member>): CacheControl {
  const read = noDirectives(true)
  for (const [name, flag] of FLAGS) read[flag] = isOn(members.get(name))
  for (const [name, seconds] of SECONDS) read[seconds] = secondsOf(members.get(name))
  return read
}

/**
 * Whether a directive is on. Each value except false turns it on, also a value of a wrong type. So
 * `private="x-id"` counts as `private` without a field name, which forbids more.
 */
function isOn(member: Member | undefined): boolean {
  return member !== undefined && !(member.type === 'boolean' && !member.value)
}

/**
 * The value of a directive in seconds. A value of a wrong type is not converted (RFC 9213 §2.1). It
 * is an invalid lifetime, which counts as expired (RFC 9111 §4.2.1).
 * https://www.rfc-editor.org/rfc/rfc9213.html#section-2.1
 */
function secondsOf(member: Member | undefined): number | undefined {
  if (member === undefined) return undefined
  if (member.type !== 'integer') return 0
  return Math.min(Math.max(member.value, 0), LARGEST_SECONDS)
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
  const seconds = cc.sMaxageS ?? cc.maxAgeS
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
  return !(cc.mustRevalidate || cc.proxyRevalidate || cc.noCache || cc.sMaxageS !== undefined)
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
