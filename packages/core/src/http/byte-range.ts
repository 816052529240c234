// Which part of a stored response a client asks for (RFC 9110 §14). One range only: a list of them may be answered by the
// whole, which saves a body made of parts that hardly any client can read.

import type { HeaderList } from '../ports/exchange.ts'
import { parseHttpDate } from './freshness.ts'
import { headerValue, type RequestHeaders, requestField, trimOws } from './headers.ts'

export type Selected =
  | { readonly type: 'whole' }
  /** From `start` to before `end`. */
  | { readonly type: 'part'; readonly start: number; readonly end: number }
  | { readonly type: 'unsatisfiable' }

const WHOLE: Selected = { type: 'whole' }

/**
 * RFC 9110 §14.2: of a stored response of `length` bytes, the part that a GET asks for. What is not understood is ignored.
 * Comes after the other conditions (§13.2.2). https://www.rfc-editor.org/rfc/rfc9110.html#section-14.2
 */
export function selectRange(
  requestHeaders: RequestHeaders,
  storedHeaders: HeaderList,
  length: number,
): Selected {
  const range = requestField(requestHeaders, 'range')
  if (range === undefined) return WHOLE
  const condition = requestField(requestHeaders, 'if-range')
  if (condition !== undefined && !isSame(trimOws(condition), storedHeaders)) return WHOLE
  return parseRange(range, length)
}

const BYTES = /^[ \t]*bytes=(.*)$/i
const INT_RANGE = /^(\d+)-(\d*)$/
const SUFFIX_RANGE = /^-(\d+)$/

/** RFC 9110 §14.1.2. https://www.rfc-editor.org/rfc/rfc9110.html#section-14.1.2 */
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
  // Of nothing, the last bytes are all of it, and no Content-Range can say so.
  if (length === 0) return WHOLE
  return { type: 'part', start: Math.max(0, length - count), end: length }
}

/**
 * RFC 9110 §13.1.5: whether the client's part is of this very response. Strong comparison only: of entity tags both must be
 * strong, a date must be that of Last-Modified, and be strong itself. https://www.rfc-editor.org/rfc/rfc9110.html#section-13.1.5
 */
function isSame(condition: string, storedHeaders: HeaderList): boolean {
  if (/^"[^"]*"$/.test(condition))
    return condition === trimOws(headerValue(storedHeaders, 'etag') ?? '')
  const date = parseHttpDate(condition)
  return date !== undefined && date === strongLastModified(storedHeaders)
}

/**
 * RFC 9110 §8.8.2.2: strong if the response was made at least a second later, so that nothing can have changed within the
 * second that it names. https://www.rfc-editor.org/rfc/rfc9110.html#section-8.8.2.2
 */
function strongLastModified(storedHeaders: HeaderList): number | undefined {
  const changedAt = parseHttpDate(headerValue(storedHeaders, 'last-modified') ?? '')
  const madeAt = parseHttpDate(headerValue(storedHeaders, 'date') ?? '')
  if (changedAt === undefined || madeAt === undefined) return undefined
  return madeAt - changedAt >= 1000 ? changedAt : undefined
}

/** RFC 9110 §14.4. https://www.rfc-editor.org/rfc/rfc9110.html#section-14.4 */
export function contentRange(
  selected: Exclude<Selected, { type: 'whole' }>,
  length: number,
): string {
  if (selected.type === 'unsatisfiable') return `bytes */${length}`
  return `bytes ${selected.start}-${selected.end - 1}/${length}`
}
