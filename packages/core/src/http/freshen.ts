// Revalidation of a stored response: its conditions, and its update by a 304 (Not Modified).
// https://www.rfc-editor.org/rfc/rfc9111.html#section-4.3

import { type CapturedHead, type HeaderList, OWN_FIELD } from '../ports/exchange.ts'
import { headerValue } from './headers.ts'
import { varyNames } from './vary.ts'

const TAG = /^(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"$/

/** RFC 9111 §4.3.1: the conditional fields of a revalidation. Empty without a validator. */
export function conditionsFor(headers: HeaderList): HeaderList {
  const etag = headerValue(headers, 'etag')
  const modified = headerValue(headers, 'last-modified')
  const conditions: Array<readonly [string, string]> = []
  if (etag !== undefined && TAG.test(etag)) conditions.push(['if-none-match', etag])
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

const opaque = (tag: string): string => TAG.exec(tag)?.[2] ?? tag

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
