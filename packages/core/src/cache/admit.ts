// Stage 1: who takes part. Everybody else goes to the app, neither looked up nor stored, with a reason.
//
// | reason          | the request                                                                      |
// |-----------------|----------------------------------------------------------------------------------|
// | method          | is neither GET nor HEAD                                                          |
// | target          | is not for a path (`*`, `http://...`), or carries a fragment                     |
// | upgrade         | wants another protocol                                                           |
// | method-override | may be routed as another method                                                  |
// | request-body    | has a body, which is in no key                                                   |
// | precondition    | has If-Match or If-Unmodified-Since, which only the origin can answer            |
// | authorization   | has Authorization or the like, and no `authorization: 'ignore'` nor `identity`   |
// | cookie          | has Cookie, and neither `cookies` nor `identity` says how                        |
// | option          | is one that the `bypass` option named                                            |
//
// A HEAD takes part in the look-up only. `no-cache`, `no-store` and `only-if-cached` of a request are
// advice (RFC 9111 §5.2.1) that would let any client reach the origin at will: they are not read here, and
// after the look-up only where the options say so (`requestDirectives`).

import { callbackError } from '../errors.ts'
import { requestField, someField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'

export type BypassReason =
  | 'method'
  | 'target'
  | 'upgrade'
  | 'method-override'
  | 'request-body'
  | 'precondition'
  | 'authorization'
  | 'cookie'
  | 'option'

/** Why a request does not take part, and the `fwd` it gets in Cache-Status. */
export interface Bypass {
  readonly reason: BypassReason
  readonly fwd: 'bypass' | 'method'
}

/** `undefined`: the request takes part. Throws when the `bypass` option does. */
export function admit<Native>(
  request: RequestView,
  native: Native,
  config: CacheConfig<Native>,
): Bypass | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return { reason: 'method', fwd: 'method' }
  }
  const reason =
    shapeReason(request) ?? credentialReason(request, config) ?? optionReason(native, config)
  return reason === undefined ? undefined : { reason, fwd: 'bypass' }
}

const OVERRIDES: ReadonlySet<string> = new Set([
  ...['x-http-method-override', 'x-http-method', 'x-method-override'],
])

/** RFC 9111 §4: what the key cannot stand for. */
function shapeReason({ target, headers }: RequestView): BypassReason | undefined {
  // RFC 9112 §3.2.1: no client sends a fragment, and behind one a `?` starts no query.
  if (!target.startsWith('/') || target.includes('#')) return 'target'
  if (headers.upgrade !== undefined) return 'upgrade'
  if (someField(headers, OVERRIDES)) return 'method-override'
  if (hasBody(headers)) return 'request-body'
  if (headers['if-match'] !== undefined) return 'precondition'
  if (headers['if-unmodified-since'] !== undefined) return 'precondition'
  return undefined
}

/** RFC 9112 §6.3: a request has a body if it frames one. */
function hasBody(headers: RequestView['headers']): boolean {
  if (headers['transfer-encoding'] !== undefined) return true
  const length = requestField(headers, 'content-length')
  return length !== undefined && !/^0+$/.test(length)
}

/** What other fields say who is asking: keys and tokens, and what a proxy in front found out. */
const CREDENTIALS: ReadonlySet<string> = new Set([
  ...['proxy-authorization', 'x-authorization', 'dpop', 'api-key', 'x-api-key', 'apikey'],
  ...['x-auth-token', 'x-access-token', 'x-session-token', 'x-amz-security-token'],
  ...['remote-user', 'x-remote-user', 'x-forwarded-user', 'x-forwarded-email'],
  ...['x-forwarded-access-token', 'x-auth-request-user', 'x-auth-request-email'],
  ...['cf-access-jwt-assertion', 'x-goog-iap-jwt-assertion', 'x-amzn-oidc-data'],
])

/** RFC 9111 §3.5, and by the same reasoning for cookies: credentials make an answer one caller's. */
function credentialReason<Native>(
  { headers }: RequestView,
  config: CacheConfig<Native>,
): BypassReason | undefined {
  if (config.identity !== undefined) return undefined
  if (config.authorization === 'bypass') {
    if (headers.authorization !== undefined) return 'authorization'
    if (someField(headers, CREDENTIALS, config.vary)) return 'authorization'
  }
  if (config.cookies !== 'bypass') return undefined
  return trimOws(requestField(headers, 'cookie') ?? '') === '' ? undefined : 'cookie'
}

function optionReason<Native>(
  native: Native,
  config: CacheConfig<Native>,
): BypassReason | undefined {
  if (config.bypass === undefined) return undefined
  let answer: unknown
  try {
    answer = config.bypass(native)
  } catch (cause) {
    throw callbackError('bypass', 'threw', cause)
  }
  // An async function would bypass everything, and nobody would notice.
  if (answer instanceof Promise)
    throw callbackError('bypass', 'returned a promise; return a boolean')
  return answer ? 'option' : undefined
}
