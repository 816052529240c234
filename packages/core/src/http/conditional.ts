// Conditional requests: a 304 for a client, the revalidation of a stored response, and an ETag for
// a response without one.

import { hash } from 'node:crypto'
import { type CapturedHead, type HeaderList, OWN_FIELD } from '../ports/exchange.ts'
import { parseHttpDate } from './freshness.ts'
import { headerValue, type RequestHeaders, requestField, trimOws } from './headers.ts'
import { varyNames } from './vary.ts'

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

/**
 * RFC 9110 §15.4.5: the fields of the stored 200 that a 304 repeats. Without those of CORS, scripts
 * of other origins could not send `If-None-Match` of their own.
 */
export function headersOf304(headers: HeaderList): HeaderList {
  return headers.filter(([name]) => IN_304.has(name) || name.startsWith('access-control-'))
}

// Revalidation of a stored response: its conditions, and its update by a 304 (Not Modified).
// https://www.rfc-editor.org/rfc/rfc9111.html#section-4.3

/** RFC 9110 §8.8.3. */
const ENTITY_TAG = /^(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"$/

/** RFC 9111 §4.3.1: the conditional fields of a revalidation. Empty without a validator. */
export function conditionsFor(headers: HeaderList): HeaderList {
  const etag = headerValue(headers, 'etag')
  const modified = headerValue(headers, 'last-modified')
  const conditions: Array<readonly [string, string]> = []
  if (etag !== undefined && ENTITY_TAG.test(etag)) conditions.push(['if-none-match', etag])
  if (modified !== undefined) conditions.push(['if-modified-since', modified])
  return conditions
}

/**
 * RFC 9111 §4.3.4: whether a 304 with these fields confirms the stored response. A strong ETag must
 * be equal. A weak ETag must be equal apart from its `W/`, and a date must be equal. A 304 without
 * a validator confirms the response too, since no other response was revalidated.
 */
export function confirms(stored: HeaderList, received: HeaderList): boolean {
  const tag = headerValue(received, 'etag')
  if (tag !== undefined) return correspond(headerValue(stored, 'etag') ?? '', tag)
  const modified = headerValue(received, 'last-modified')
  return modified === undefined || modified === headerValue(stored, 'last-modified')
}

function correspond(stored: string, received: string): boolean {
  const isWeak = received.startsWith('W/')
  return isWeak ? opaque(stored) === opaque(received) : stored === received
}

const opaque = (tag: string): string => ENTITY_TAG.exec(tag)?.[2] ?? tag

/** Fields that describe the stored body. A 304 has no body, so its values are not used. */
const BODY_FIELDS: ReadonlySet<string> = new Set([
  'content-length',
  'content-encoding',
  'content-range',
])

/**
 * RFC 9111 §3.2: the stored fields, updated by those of a 304. The caller removes the fields that
 * §3.1 excludes from storage. A 304 with Cache-Control also replaces the stored `OWN_FIELD`.
 * `wallNow` (Unix time in ms) is the date of a 304 without one.
 *
 * The names in the `Vary` of the 304 are added to the stored `Vary`, whose fields selected the
 * stored body. A 304 may have only the names that a middleware set before the handler ran.
 */
export function freshen(
  stored: HeaderList,
  { headers }: Pick<CapturedHead, 'headers'>,
  wallNow: number,
): HeaderList {
  const updates = headers.filter(([name]) => !BODY_FIELDS.has(name) && name !== 'vary')
  const vary = joinedVary(stored, headers)
  const names = new Set(updates.map(([name]) => name))
  if (!names.has('date')) updates.push(['date', new Date(wallNow).toUTCString()])
  names.add('date')
  if (names.has('cache-control')) names.add(OWN_FIELD)
  if (vary.length > 0) names.add('vary')
  return [...stored.filter(([name]) => !names.has(name)), ...updates, ...vary]
}

/**
 * The stored `Vary` with the names of the 304. Empty if the 304 has no `Vary`, so that the stored
 * field is not replaced.
 */
function joinedVary(stored: HeaderList, received: HeaderList): HeaderList {
  if (headerValue(received, 'vary') === undefined) return []
  const names = varyNames([...stored, ...received])
  return [['vary', names === '*' ? names : names.join(', ')]]
}

// A generated ETag for a stored response without a validator, so that clients can revalidate it. It
// is weak, because a middleware before the cache may compress the body and keep the ETag.

/** Whether the cache may add an ETag: to a 200 without a validator. */
export function lacksValidator({ status, headers }: CapturedHead): boolean {
  return status === 200 && !headers.some(([name]) => name === 'etag' || name === 'last-modified')
}

/**
 * RFC 9110 §8.8.3: a digest of the body, if all of it is known already (`whole`). Then the ETag
 * does not change if a refresh returns the same body. Otherwise a digest of the fence, which is
 * unique. https://www.rfc-editor.org/rfc/rfc9110.html#section-8.8.3
 */
export function mintEtag(whole: Uint8Array | undefined, fence: string): string {
  // 132 bits of SHA-256, so that two different inputs do not get the same digest by chance.
  const digest = hash('sha256', whole ?? fence, 'base64url').slice(0, 22)
  return `W/"${whole === undefined ? 's-' : ''}${digest}"`
}
