// Range requests: the part of a stored response that a client requests (RFC 9110 §14). A request
// for several ranges gets the whole response, because few clients can parse multipart/byteranges.

import type { HeaderList } from '../ports/exchange.ts'
import { parseHttpDate } from './freshness.ts'
import { headerValue, type RequestHeaders, requestField, trimOws } from './headers.ts'

export type Selected =
  | { readonly type: 'whole' }
  /** The bytes from `start` up to `end`, without the byte at `end`. */
  | { readonly type: 'part'; readonly start: number; readonly end: number }
  | { readonly type: 'unsatisfiable' }

const WHOLE: Selected = { type: 'whole' }

/**
 * RFC 9110 §14.2: the part of a stored response of `length` bytes that a GET requests. A malformed
 * Range is ignored. The caller must evaluate all conditions except If-Range before (§13.2.2).
 * https://www.rfc-editor.org/rfc/rfc9110.html#section-14.2
 */
export function selectRange(
  requestHeaders: RequestHeaders,
  storedHeaders: HeaderList,
  length: number,
): Selected {
  const range = requestField(requestHeaders, 'range')
  if (range === undefined) return WHOLE
  const condition = requestField(requestHeaders, 'if-range')
  if (condition !== undefined && !matchesIfRange(trimOws(condition), storedHeaders)) return WHOLE
  return parseRange(range, length)
}

/** Whether one of the ranges begins at `from` or later, or so many bytes before the end. */
export function beginsBeyond(range: string, from: number): boolean {
  const firsts = range.matchAll(/[=,][ \t]*(\d*)-/g)
  return [...firsts].some(([, first]) => first === '' || Number(first) >= from)
}

const BYTES = /^[ \t]*bytes=(.*)$/i
const INT_RANGE = /^(\d+)-(\d*)$/
const SUFFIX_RANGE = /^-(\d+)$/

/**
 * Parses a byte range (RFC 9110 §14.1.2).
 * https://www.rfc-editor.org/rfc/rfc9110.html#section-14.1.2
 */
function parseRange(range: string, length: number): Selected {
  const [, set] = BYTES.exec(range) ?? []
  const specs = (set ?? '').split(',').map(trimOws).filter(Boolean)
  const [spec] = specs
  if (spec === undefined || specs.length > 1) return WHOLE
  const [, suffix] = SUFFIX_RANGE.exec(spec) ?? []
  if (suffix !== undefined) return lastBytes(Number(suffix), length)
  const [, first, last] = INT_RANGE.exec(spec) ?? []
  if (first === undefined) return WHOLE
  const start = Number(first)
  const end = last === '' ? length : Math.min(Number(last) + 1, length)
  if (last !== '' && Number(last) < start) return WHOLE
  return start < length ? { type: 'part', start, end } : { type: 'unsatisfiable' }
}

function lastBytes(count: number, length: number): Selected {
  if (count === 0) return { type: 'unsatisfiable' }
  // The last bytes of an empty body are the whole body, and no Content-Range can express an empty
  // part.
  if (length === 0) return WHOLE
  return { type: 'part', start: Math.max(0, length - count), end: length }
}

/**
 * RFC 9110 §13.1.5: whether `condition`, the value of If-Range, matches the stored response. The
 * comparison is strong: both ETags must be strong, or the date must equal a strong Last-Modified.
 * https://www.rfc-editor.org/rfc/rfc9110.html#section-13.1.5
 */
function matchesIfRange(condition: string, storedHeaders: HeaderList): boolean {
  if (/^"[^"]*"$/.test(condition))
    return condition === trimOws(headerValue(storedHeaders, 'etag') ?? '')
  const date = parseHttpDate(condition)
  return date !== undefined && date === strongLastModified(storedHeaders)
}

/**
 * RFC 9110 §8.8.2.2: Last-Modified is strong if the Date of the response is at least 1 s later.
 * Then the resource cannot have changed again within the same second.
 * https://www.rfc-editor.org/rfc/rfc9110.html#section-8.8.2.2
 */
function strongLastModified(storedHeaders: HeaderList): number | undefined {
  const changedAt = parseHttpDate(headerValue(storedHeaders, 'last-modified') ?? '')
  const generatedAt = parseHttpDate(headerValue(storedHeaders, 'date') ?? '')
  if (changedAt === undefined || generatedAt === undefined) return undefined
  return generatedAt - changedAt >= 1000 ? changedAt : undefined
}

/**
 * The Content-Range field (RFC 9110 §14.4).
 * https://www.rfc-editor.org/rfc/rfc9110.html#section-14.4
 */
export function contentRange(
  selected: Exclude<Selected, { type: 'whole' }>,
  length: number,
): string {
  if (selected.type === 'unsatisfiable') return `bytes */${length}`
  return `bytes ${selected.start}-${selected.end - 1}/${length}`
}
