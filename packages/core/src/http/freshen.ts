// Asking whether a stored response is still so, and what becomes of it when the answer is 304 (Not Modified).
// https://www.rfc-editor.org/rfc/rfc9111.html#section-4.3

import { type CapturedHead, type HeaderList, OWN_FIELD } from '../ports/exchange.ts'
import { headerValue } from './headers.ts'
import { varyNames } from './vary.ts'

const TAG = /^(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"$/

/** RFC 9111 §4.3.1: the conditions that a response with these fields is asked about with; none where it has no validator. */
export function conditionsFor(headers: HeaderList): HeaderList {
  const etag = headerValue(headers, 'etag')
  const modified = headerValue(headers, 'last-modified')
  const conditions: Array<readonly [string, string]> = []
  if (etag !== undefined && TAG.test(etag)) conditions.push(['if-none-match', etag])
  if (modified !== undefined) conditions.push(['if-modified-since', modified])
  return conditions
}

/**
 * RFC 9111 §4.3.4: whether a 304 with these fields is about the stored response. A strong tag must be the same; a weak one, and a
 * date, must correspond. One that names nothing is about the only response that was asked about.
 */
export function isAbout(stored: HeaderList, said: HeaderList): boolean {
  const tag = headerValue(said, 'etag')
  if (tag !== undefined) return correspond(headerValue(stored, 'etag') ?? '', tag)
  const modified = headerValue(said, 'last-modified')
  return modified === undefined || modified === headerValue(stored, 'last-modified')
}

function correspond(stored: string, said: string): boolean {
  const isWeak = said.startsWith('W/')
  return isWeak ? opaque(stored) === opaque(said) : stored === said
}

const opaque = (tag: string): string => TAG.exec(tag)?.[2] ?? tag

/** Of the body that is stored: a 304 has none that it could tell this of. */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  'content-length',
  'content-encoding',
  'content-range',
])

/**
 * RFC 9111 §3.2: the stored fields, updated by those of a 304. What §3.1 excludes from storage is still in there; what is said to
 * this cache alone is gone with the next word on caching. `wallNow` is Unix time in ms: a 304 without a date was made now.
 *
 * `Vary` is added to, and not replaced: the body that stays was chosen by what is stored there, and a 304 may have no more than what
 * some layer said, before its handler came to it.
 */
export function freshen(
  stored: HeaderList,
  { headers }: Pick<CapturedHead, 'headers'>,
  wallNow: number,
): HeaderList {
  const said = headers.filter(([name]) => !OF_THE_BODY.has(name) && name !== 'vary')
  const vary = bothVary(stored, headers)
  const names = new Set(said.map(([name]) => name))
  if (!names.has('date')) said.push(['date', new Date(wallNow).toUTCString()])
  names.add('date')
  if (names.has('cache-control')) names.add(OWN_FIELD)
  if (vary.length > 0) names.add('vary')
  return [...stored.filter(([name]) => !names.has(name)), ...said, ...vary]
}

/** None, where the 304 says none: then what is stored stays. */
function bothVary(stored: HeaderList, said: HeaderList): HeaderList {
  if (headerValue(said, 'vary') === undefined) return []
  const names = varyNames([...stored, ...said])
  return [['vary', names === '*' ? names : names.join(', ')]]
}
