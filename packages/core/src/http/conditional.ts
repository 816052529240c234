// Conditional requests of clients: decides whether the reply is a 304.

import type { HeaderList } from '../ports/exchange.ts'
import { parseHttpDate } from './freshness.ts'
import { headerValue, type RequestHeaders, requestField, trimOws } from './headers.ts'

/**
 * RFC 9110 §13.2.2: whether the client's condition matches the stored response. If-Modified-Since
 * counts only without If-None-Match. Only a 200 can become a 304.
 */
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

/** RFC 9110 §13.1.2: weak comparison of the text between quotes, which may contain commas. */
function matchesAny(tags: string, etag: string | undefined): boolean {
  if (trimOws(tags) === '*') return true
  const [, stored] = ONE_TAG.exec(trimOws(etag ?? '')) ?? []
  if (stored === undefined) return false
  for (const [, tag] of tags.matchAll(TAGS)) if (tag === stored) return true
  return false
}

/** RFC 9110 §13.1.3 and RFC 9111 §4.3.2: the stored Date is used if there is no Last-Modified. */
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

/** RFC 9110 §15.4.5: the fields of the stored 200 that a 304 repeats, and the field `also`. */
export function headersOf304(headers: HeaderList, also?: string): HeaderList {
  return headers.filter(([name]) => IN_304.has(name) || name === also)
}
