// Header fields as an entry keeps them: name, value, name, value. One array in the place of one for each field, and of a
// name that is common only one string for all entries.

import type { HeaderList } from '../ports/exchange.ts'
import { ownText, Recent } from '../recent.ts'

/** Names lower-case, each before its value. */
export type Fields = readonly string[]

/** RFC 9110, RFC 9111, and what frameworks and their usual layers add. */
const COMMON: ReadonlyMap<string, string> = new Map(
  [
    ...['content-type', 'content-length', 'content-encoding', 'content-language'],
    ...['content-location', 'content-disposition', 'cache-control', 'date', 'etag', 'expires'],
    ...['last-modified', 'location', 'link', 'vary', 'x-powered-by', 'accept-ranges'],
    ...['access-control-allow-origin', 'access-control-expose-headers', 'referrer-policy'],
    ...['content-security-policy', 'cross-origin-opener-policy', 'cross-origin-resource-policy'],
    ...['origin-agent-cluster', 'strict-transport-security', 'x-content-type-options'],
    ...['x-dns-prefetch-control', 'x-download-options', 'x-frame-options', 'x-xss-protection'],
    ...['x-permitted-cross-domain-policies', 'x-response-time', 'cdn-cache-control'],
  ].map((name) => [name, name]),
)

/** Their values are hardly ever those of another entry. */
const OF_ONE_ENTRY: ReadonlySet<string> = new Set([
  ...['content-length', 'content-location', 'content-disposition', 'etag', 'last-modified'],
  ...['expires', 'link', 'location'],
])

/** What is made within one second says the same. */
let lastDate = ''

function ofNow(date: string): string {
  if (date !== lastDate) lastDate = ownText(date)
  return lastDate
}

export function toFields(headers: HeaderList): Fields {
  const fields: string[] = []
  for (const [name, value] of headers) {
    const common = COMMON.get(name)
    const isOwn = common === undefined || OF_ONE_ENTRY.has(common)
    fields.push(common ?? name, isOwn ? value : common === 'date' ? ofNow(value) : shared(value))
  }
  // An array that has grown has room for more.
  return fields.slice()
}

/** Longer ones, such as policies, are few; shorter ones that are of one entry alone, as its tag is, make room for others soon. */
const LONGEST_SHARED = 64
const MOST_SHARED = 256
const recent = new Recent<string>(MOST_SHARED)

/** Types, policies and the like are the same for many entries: of those of late there is one string. */
export function shared(text: string): string {
  if (text.length > LONGEST_SHARED) return text
  const known = recent.get(text)
  if (known !== undefined) return known
  const own = ownText(text)
  recent.set(own, own)
  return own
}

/** The same, of strings that are no parts of others. What toFields() made is shared mostly, and then is so already. */
export function ownFields(fields: Fields): Fields {
  return fields.map((text) => {
    if (text === lastDate) return lastDate
    return COMMON.get(text) ?? recent.get(text) ?? ownText(text)
  })
}

/** A copy whose strings are no parts of others. */
export function ownHeaders(headers: HeaderList): HeaderList {
  return headers.map(([name, value]) => {
    const common = COMMON.get(name)
    if (common === undefined) return [ownText(name), ownText(value)]
    if (common === 'date') return [common, ofNow(value)]
    return [common, OF_ONE_ENTRY.has(common) ? ownText(value) : shared(value)]
  })
}

export function toHeaders(fields: Fields): HeaderList {
  const headers: Array<readonly [string, string]> = []
  for (let i = 0; i < fields.length; i += 2) {
    headers.push([fields[i] as string, fields[i + 1] as string])
  }
  return headers
}
