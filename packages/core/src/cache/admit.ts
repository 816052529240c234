// Decides which requests use the cache. Any other request bypasses it, with a reason.
// `BYPASS_DETAILS` lists the reasons.
//
// A HEAD request may get a stored response, but its own response is never stored. `no-cache`,
// `no-store` and `only-if-cached` of a request are advice (RFC 9111 §5.2.1) that would let any
// client reach the origin at will. This stage ignores them. Later stages respect them only with
// `requestDirectives: 'respect'`.

import { callbackError } from '../errors.ts'
import type { BypassDetail } from '../http/cache-status-details.ts'
import { identifiesCaller } from '../http/credential-fields.ts'
import { requestField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import { Recent } from '../recent.ts'
import type { CacheConfig } from './cache-config.ts'

/** The reason for which a request bypasses the cache, and the parameter `fwd` of Cache-Status. */
export interface Bypass {
  readonly reason: BypassDetail | 'method'
  readonly fwd: 'bypass' | 'method'
}

/**
 * Returns `undefined` if the request may use the cache. Throws if the `bypass` option throws or
 * returns a promise.
 */
export function admit<Native>(
  request: RequestView,
  native: Native,
  config: CacheConfig<Native>,
): Bypass | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return { reason: 'method', fwd: 'method' }
  }
  const hasBypassField = someBypassField(request.headers)
  const reason =
    request.lostLines ??
    shapeReason(request, hasBypassField) ??
    credentialReason(request, config, hasBypassField) ??
    optionReason(native, config)
  return reason === undefined ? undefined : { reason, fwd: 'bypass' }
}

/**
 * Whether the request has a field that may cause a bypass: a credential or a method override.
 * Hardly any request has one. Without such a field, later checks need not loop over the fields.
 */
function someBypassField(headers: RequestView['headers']): boolean {
  for (const name in headers) if (isBypassField(name)) return true
  return false
}

/**
 * Recently seen field names, and whether each may cause a bypass. If a client sends many names,
 * they evict others. An evicted name is only checked again.
 */
const recentNames = new Recent<boolean>(1_024)
/** Longer names are checked for each request. */
const LONGEST_RECENT = 64

function isBypassField(name: string): boolean {
  const known = recentNames.get(name)
  if (known !== undefined) return known
  const mayCauseBypass = OVERRIDES.includes(name) || identifiesCaller(name)
  if (name.length <= LONGEST_RECENT) recentNames.set(name, mayCauseBypass)
  return mayCauseBypass
}

const OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override']

/**
 * Returns a reason if the response may depend on a part of the request that the key cannot contain,
 * such as its body (RFC 9111 §4).
 */
function shapeReason(
  { target, headers, hasBody }: RequestView,
  hasBypassField: boolean,
): BypassDetail | undefined {
  // A target with a fragment is invalid (RFC 9112 §3.2.1). Its key would be wrong, because a `?`
  // inside a fragment begins no query.
  if (!target.startsWith('/') || target.includes('#')) return 'target'
  if (headers.upgrade !== undefined) return 'upgrade'
  if (hasBypassField && OVERRIDES.some((name) => headers[name] !== undefined))
    return 'method-override'
  if (hasBody === true || framesBody(headers)) return 'request-body'
  if (headers['if-match'] !== undefined) return 'precondition'
  if (headers['if-unmodified-since'] !== undefined) return 'precondition'
  return undefined
}

/** Whether a header field declares a body. In HTTP/1, each body is declared (RFC 9112 §6.3). */
function framesBody(headers: RequestView['headers']): boolean {
  if (headers['transfer-encoding'] !== undefined) return true
  const length = requestField(headers, 'content-length')
  return length !== undefined && !/^0+$/.test(length)
}

/**
 * Returns a reason if the request has credentials or cookies. The response may be for this caller
 * only (RFC 9111 §3.5).
 */
function credentialReason<Native>(
  request: RequestView,
  config: CacheConfig<Native>,
  hasBypassField: boolean,
): BypassDetail | undefined {
  if (config.identity !== undefined) return undefined
  const reason = callerReason(request, config, hasBypassField)
  if (reason !== undefined || config.cookies !== 'bypass') return reason
  return trimOws(requestField(request.headers, 'cookie') ?? '') === '' ? undefined : 'cookie'
}

/**
 * Returns a reason if a header field or the connection identifies the caller. A client certificate
 * is ignored only if the `authorization` option has a list with `client-certificate`.
 */
function callerReason<Native>(
  { headers, hasClientCertificate, hasLogin }: RequestView,
  { authorization, vary }: CacheConfig<Native>,
  hasBypassField: boolean,
): BypassDetail | undefined {
  const ignored = typeof authorization === 'object' ? authorization.ignore : NONE
  if (hasClientCertificate === true && !ignored.includes('client-certificate'))
    return 'client-certificate'
  if (authorization === 'ignore') return undefined
  if (!ignored.includes('authorization')) {
    if (headers.authorization !== undefined) return 'authorization'
    if (hasLogin === true) return 'connection-auth'
  }
  if (!hasBypassField) return undefined
  for (const name in headers) {
    if (!identifiesCaller(name) || headers[name] === undefined || name === 'authorization') continue
    if (!vary.includes(name) && !ignored.includes(name)) return 'authorization'
  }
  return undefined
}

const NONE: readonly string[] = []

function optionReason<Native>(
  native: Native,
  config: CacheConfig<Native>,
): BypassDetail | undefined {
  if (config.bypass === undefined) return undefined
  let result: unknown
  try {
    result = config.bypass(native)
  } catch (cause) {
    throw callbackError('bypass', 'the function threw', cause)
  }
  // A promise is truthy, so an async function would make all requests bypass the cache unnoticed.
  if (result instanceof Promise) {
    // A rejection of this promise must not crash the process.
    result.catch(() => {})
    throw callbackError('bypass', 'the function returned a promise; return a boolean')
  }
  return result ? 'option' : undefined
}
