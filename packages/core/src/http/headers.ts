// Access to header fields, the response fields that may be stored or replayed, and their form in an
// entry.

import { type HeaderList, OWN_FIELD, OWN_FIELDS } from '../ports/exchange.ts'
import { Recent } from '../recent.ts'

/**
 * Request headers as in Node. Names are lower-case. The lines of a field are joined or an array.
 */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>

/** The values of all lines of a field, in order. `name` is lower-case. */
export function headerValues(headers: HeaderList, name: string): string[] {
  const values: string[] = []
  for (const [key, value] of headers) if (key === name) values.push(value)
  return values
}

/** The value of the first line of a field. `name` is lower-case. */
export function headerValue(headers: HeaderList, name: string): string | undefined {
  for (const [key, value] of headers) if (key === name) return value
  return undefined
}

/** A request field as one string, or undefined if it is absent. `name` is lower-case. */
export function requestField(headers: RequestHeaders, name: string): string | undefined {
  // A name in Vary may be `constructor`, which each plain object inherits.
  if (!Object.hasOwn(headers, name)) return undefined
  const value = headers[name]
  if (typeof value !== 'object') return value
  return value.join(name === 'cookie' ? '; ' : ', ')
}

const NOT_REPLAYED: ReadonlySet<string> = new Set([
  // Fields for one connection (RFC 9110 §7.6.1).
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  // Content-Length, Age and Cache-Status are set again for each response.
  'content-length',
  'age',
  'cache-status',
  // The field for this cache only.
  OWN_FIELD,
  // Fields for one caller.
  'set-cookie',
  'set-cookie2',
  // Fields for one request.
  'x-request-id',
  'x-correlation-id',
  'traceparent',
  'tracestate',
  'server-timing',
])

const NOT_REPLAYED_PREFIX = /^(proxy-|ratelimit|x-ratelimit-)/

/**
 * Response fields for one caller, by exact name. As with Set-Cookie, a response that has one is not
 * stored. CDNs and proxies add none of them to every response.
 */
export const CREDENTIAL_FIELDS: ReadonlySet<string> = new Set([
  // RFC 9110 §11.6 and §11.7: Negotiate and Digest authenticate one caller with these fields, also
  // in a 200.
  ...['authentication-info', 'proxy-authentication-info', 'www-authenticate'],
  // Credentials that the server issues or renews.
  ...['authorization', 'x-authorization', 'access-token', 'x-access-token', 'refresh-token'],
  ...['x-refresh-token', 'auth-token', 'x-auth-token', 'id-token', 'x-id-token'],
  ...['token', 'x-token', 'session-token', 'x-session-token', 'session-id', 'x-session-id'],
  ...['jwt', 'x-jwt', 'x-jwt-token', 'x-user-token', 'x-subject-token', 'private-token'],
  ...['x-vault-token', 'x-amz-security-token', 'api-key', 'x-api-key'],
  // CSRF tokens and nonces (RFC 9449 §8.2, RFC 8555 §6.5.1).
  ...['csrf-token', 'x-csrf-token', 'x-csrftoken', 'xsrf-token', 'x-xsrf-token'],
  ...['dpop-nonce', 'replay-nonce'],
  // Device-bound sessions.
  ...['sec-session-registration', 'sec-session-challenge'],
  ...['secure-session-registration', 'secure-session-challenge'],
  // Commands to one caller's browser.
  ...['clear-site-data', 'set-login'],
])

/** Fields that no stored response has. */
export const NOT_STORED: ReadonlySet<string> = new Set([...OWN_FIELDS, ...CREDENTIAL_FIELDS])

/**
 * RFC 9111 §3.1: the fields that an entry stores. `Date` stays, because `Age` is computed from it.
 */
export function storableHeaders(headers: HeaderList): HeaderList {
  return reusableHeaders(headers, NOT_STORED)
}

/**
 * The response fields that may be sent to another request, without those in `excluded`. Fields
 * listed in `Connection` are for one connection too (RFC 9110 §7.6.1).
 */
export function reusableHeaders(
  headers: HeaderList,
  excluded: ReadonlySet<string> = NOT_REPLAYED,
  pattern: RegExp = NOT_REPLAYED_PREFIX,
): HeaderList {
  const reusable: Array<HeaderList[number]> = []
  const listed: string[] = []
  for (const field of headers) {
    const [name, value] = field
    if (name === 'connection') listed.push(...value.split(','))
    if (NOT_REPLAYED.has(name) || NOT_REPLAYED_PREFIX.test(name)) continue
    if (!excluded.has(name) && !pattern.test(name)) reusable.push(field)
  }
  if (listed.length === 0) return reusable
  const ofConnection = listed.map((name) => trimOws(name).toLowerCase())
  return reusable.filter(([name]) => !ofConnection.includes(name))
}

/**
 * RFC 9110 §5.6.3: removes spaces and tabs at both ends. `trim()` would also remove NBSP, so two
 * different values could become equal. A regular expression for the end would take quadratic time.
 */
export function trimOws(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isOws(text.charCodeAt(start))) start++
  while (end > start && isOws(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

function isOws(code: number): boolean {
  return code === 0x20 || code === 0x09
}

// Header fields as an entry stores them: one array in which each name is followed by its value. It
// takes less memory than one array per field. All entries share one string for each common name.

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

/** V8 copies a substring that is shorter than this. */
const SHORTEST_REFERENCE = 13

/**
 * A copy of a string that is kept in memory. V8 stores a longer substring as a reference, which
 * keeps its whole parent string in memory, such as a header or a body.
 */
export function detachedText(text: string): string {
  return text.length < SHORTEST_REFERENCE ? text : (JSON.parse(JSON.stringify(text)) as string)
}

/** Responses of the same second share one `Date` string. */
let lastDate = ''

function sharedDate(date: string): string {
  if (date !== lastDate) lastDate = detachedText(date)
  return lastDate
}

/** The fields with copies of their strings, of which none references a longer one. */
export function toFields(headers: HeaderList): Fields {
  const fields: string[] = []
  for (const [name, value] of headers)
    fields.push(COMMON.get(name) ?? detachedText(name), ownValue(name, value))
  // A copy, because an array that has grown reserves memory for more elements.
  return fields.slice()
}

/** Copies header fields as `toFields` does, but as a list of pairs. */
export function ownHeaders(headers: HeaderList): HeaderList {
  const own: Array<HeaderList[number]> = []
  for (const [name, value] of headers)
    own.push([COMMON.get(name) ?? detachedText(name), ownValue(name, value)])
  return own
}

function ownValue(name: string, value: string): string {
  if (name === 'date') return sharedDate(value)
  return COMMON.has(name) && !OF_ONE_ENTRY.has(name) ? shared(value) : detachedText(value)
}

/** Longer values, such as policies, are rare and are not shared. */
const LONGEST_SHARED = 64
/** Limit of shared values. A value that only one entry has is soon evicted. */
const MOST_SHARED = 256
const recent = new Recent<string>(MOST_SHARED)

/** Returns one string for equal texts of recent entries, so that the entries share its memory. */
export function shared(text: string): string {
  if (text.length > LONGEST_SHARED) return detachedText(text)
  const known = recent.get(text)
  if (known !== undefined) return known
  const own = detachedText(text)
  recent.set(own, own)
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

/**
 * Request fields that frameworks, apps and their libraries read in place of the host, the scheme or
 * the path. Some of this code reads the fields even if no trusted proxy has set them.
 */
export const ADDRESS_FIELDS: ReadonlySet<string> = new Set([
  ...['x-forwarded-host', 'x-original-host', 'x-host', 'x-http-host-override'],
  ...['x-original-forwarded-host', 'x-forwarded-server', 'forwarded'],
  ...['x-forwarded-proto', 'x-forwarded-protocol', 'x-forwarded-scheme', 'x-forwarded-ssl'],
  ...['x-url-scheme', 'front-end-https', 'x-forwarded-port', 'x-arr-ssl'],
  ...['cf-visitor', 'cloudfront-forwarded-proto'],
  ...['x-forwarded-prefix', 'x-forwarded-path', 'x-forwarded-uri', 'x-forwarded-context'],
  ...['x-original-url', 'x-original-uri', 'x-rewrite-url', 'x-envoy-original-path'],
  'x-script-name',
])
