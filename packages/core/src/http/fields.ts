// Header fields as an entry stores them: one array in which each name is followed by its value. It
// takes less memory than one array per field. All entries share one string for each common name.

import type { HeaderList } from '../ports/exchange.ts'
import { detachedText, Recent } from '../recent.ts'

/** Each name, in lower case, followed by its value. */
export type Fields = readonly string[]

/** Common names: those of RFC 9110 and RFC 9111, and those that frameworks and middlewares add. */
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

/** Fields whose values differ between nearly all entries, so that sharing them saves nothing. */
const OF_ONE_ENTRY: ReadonlySet<string> = new Set([
  ...['content-length', 'content-location', 'content-disposition', 'etag', 'last-modified'],
  ...['expires', 'link', 'location'],
])

/** Responses of the same second share one `Date` string. */
let lastDate = ''

function sharedDate(date: string): string {
  if (date !== lastDate) lastDate = detachedText(date)
  return lastDate
}

export function toFields(headers: HeaderList): Fields {
  const fields: string[] = []
  for (const [name, value] of headers) {
    const common = COMMON.get(name)
    const isOwn = common === undefined || OF_ONE_ENTRY.has(common)
    const text = isOwn ? value : common === 'date' ? sharedDate(value) : shared(value)
    fields.push(common ?? name, text)
  }
  // A copy, because an array that has grown reserves memory for more elements.
  return fields.slice()
}

/** Longer values, such as policies, are rare and are not shared. */
const LONGEST_SHARED = 64
/** Limit of shared values. A value that only one entry has is soon evicted. */
const MOST_SHARED = 256
const recent = new Recent<string>(MOST_SHARED)

/** Returns one string for equal texts of recent entries, so that the entries share its memory. */
export function shared(text: string): string {
  if (text.length > LONGEST_SHARED) return text
  const known = recent.get(text)
  if (known !== undefined) return known
  const own = detachedText(text)
  recent.set(own, own)
  return own
}

/**
 * Copies fields so that no string references a longer one. Most strings from `toFields` are shared
 * and need no copy.
 */
export function ownFields(fields: Fields): Fields {
  return fields.map((text) => {
    if (text === lastDate) return lastDate
    return COMMON.get(text) ?? recent.get(text) ?? detachedText(text)
  })
}

/** Copies header fields so that no string references a longer one. */
export function ownHeaders(headers: HeaderList): HeaderList {
  const own: Array<HeaderList[number]> = []
  for (const [name, value] of headers) {
    const common = COMMON.get(name)
    if (common === undefined) own.push([detachedText(name), detachedText(value)])
    else if (common === 'date') own.push([common, sharedDate(value)])
    else own.push([common, OF_ONE_ENTRY.has(common) ? detachedText(value) : shared(value)])
  }
  return own
}

/** Pairs of name and value from a list in which they alternate. */
export function toHeaders(fields: Fields): HeaderList {
  const headers: Array<readonly [string, string]> = []
  for (let i = 0; i < fields.length; i += 2) {
    headers.push([fields[i] as string, fields[i + 1] as string])
  }
  return headers
}
