// A client's own condition, evaluated against a stored response: may it be answered 304?

import type { HeaderList } from '../ports/exchange.ts'
import { parseHttpDate } from './freshness.ts'
import { headerValue, type RequestHeaders, requestField, trimOws } from './headers.ts'

/** RFC 9110 §13.2.2: If-None-Match decides; If-Modified-Since only in its absence. Only 200 becomes 304. */
export function notModified(
  requestHeaders: RequestHeaders,
  storedHeaders: HeaderList,
  status: number,
): boolean {
  if (status !== 200) return false
  const tags = requestField(requestHeaders, 'if-none-match')
  if (tags !== undefined) return matchesAny(tags, headerValue(storedHeaders, 'etag'))
  const since = requestField(requestHeaders, 'if-modified-since')
  return since !== undefined && unmodifiedSince(since, storedHeaders)
}

const ONE_TAG = /^(?:W\/)?"([^"]*)"$/
const TAGS = /"([^"]*)"/g

/** RFC 9110 §13.1.2: weak comparison, so only what is between the quotes counts. Commas may be in there. */
function matchesAny(tags: string, etag: string | undefined): boolean {
  if (trimOws(tags) === '*') return true
  const [, stored] = ONE_TAG.exec(trimOws(etag ?? '')) ?? []
  if (stored === undefined) return false
  for (const [, tag] of tags.matchAll(TAGS)) if (tag === stored) return true
  return false
}

/** RFC 9110 §13.1.3 and RFC 9111 §4.3.2: without Last-Modified the stored Date stands in for it. */
function unmodifiedSince(since: string, storedHeaders: HeaderList): boolean {
  const changed = headerValue(storedHeaders, 'last-modified') ?? headerValue(storedHeaders, 'date')
  const changedAt = parseHttpDate(changed ?? '')
  const sinceAt = parseHttpDate(since)
  return changedAt !== undefined && sinceAt !== undefined && changedAt <= sinceAt
}

const IN_304: ReadonlySet<string> = new Set([
  'cache-control',
  'content-location',
  'date',
  'etag',
  'expires',
  'vary',
])

/** RFC 9110 §15.4.5: the fields of the stored 200 that a 304 repeats, and one more. */
export function headersOf304(headers: HeaderList, also?: string): HeaderList {
  return headers.filter(([name]) => IN_304.has(name) || name === also)
}
