// Explicit lifetime and age of a response, by its header fields. The file cache/storable.ts
// computes the lifetime of the entry from both.

import type { HeaderList } from '../ports/exchange.ts'
import {
  type CacheControl,
  type Directives,
  deltaSeconds,
  LARGEST_SECONDS,
} from './cache-control.ts'
import { headerValue, headerValues, trimOws } from './headers.ts'

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
