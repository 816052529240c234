// Access to header fields, and the response fields that may be stored or replayed.

import { type HeaderList, OWN_FIELD, OWN_FIELDS } from '../ports/exchange.ts'

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

const NOT_STORED: ReadonlySet<string> = new Set([...OWN_FIELDS, ...CREDENTIAL_FIELDS])

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
