// Decides which requests use the cache. Any other request bypasses it, with a reason.
// `BYPASS_DETAILS` lists the reasons.
//
// A HEAD request is looked up but never fills. `no-cache`, `no-store` and `only-if-cached` of a
// request are advice (RFC 9111 §5.2.1) that would let any client reach the origin at will. This
// stage ignores them. Later stages respect them only with `requestDirectives: 'respect'`.

import { callbackError } from '../errors.ts'
import type { BypassDetail } from '../http/cache-status-details.ts'
import { requestField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import { Recent } from '../recent.ts'
import type { CacheConfig } from './cache-config.ts'
import { identifiesCaller } from './credential-fields.ts'

/** Why a request bypasses the cache, and its `fwd` in Cache-Status. */
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
  const isNotable = hasNotableField(request.headers)
  const reason =
    shapeReason(request, isNotable) ??
    credentialReason(request, config, isNotable) ??
    optionReason(native, config)
  return reason === undefined ? undefined : { reason, fwd: 'bypass' }
}

/**
 * Whether any field is a credential or a method override. Hardly any request has one, so this one
 * loop saves the checks that follow.
 */
function hasNotableField(headers: RequestView['headers']): boolean {
  for (const name in headers) if (isNotableName(name)) return true
  return false
}

/**
 * Recently seen field names, and whether each is notable. A client that sends many names can evict
 * others. An evicted name is only checked again.
 */
const judged = new Recent<boolean>(1_024)
const LONGEST_JUDGED = 64

function isNotableName(name: string): boolean {
  const known = judged.get(name)
  if (known !== undefined) return known
  const isNotable = OVERRIDES.includes(name) || identifiesCaller(name)
  if (name.length <= LONGEST_JUDGED) judged.set(name, isNotable)
  return isNotable
}

const OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override']

/**
 * Returns a reason if the key cannot describe the request, for example its body (RFC 9111 §4).
 */
function shapeReason(
  { target, headers, hasBody }: RequestView,
  isNotable: boolean,
): BypassDetail | undefined {
  // A fragment is invalid here (RFC 9112 §3.2.1), and a `?` inside a fragment begins no query.
  if (!target.startsWith('/') || target.includes('#')) return 'target'
  if (headers.upgrade !== undefined) return 'upgrade'
  if (isNotable && OVERRIDES.some((name) => headers[name] !== undefined)) return 'method-override'
  if (hasBody === true || framesBody(headers)) return 'request-body'
  if (headers['if-match'] !== undefined) return 'precondition'
  if (headers['if-unmodified-since'] !== undefined) return 'precondition'
  return undefined
}

/** Whether the header declares a body, as it must in HTTP/1 (RFC 9112 §6.3). */
function framesBody(headers: RequestView['headers']): boolean {
  if (headers['transfer-encoding'] !== undefined) return true
  const length = requestField(headers, 'content-length')
  return length !== undefined && !/^0+$/.test(length)
}

/**
 * Returns a reason if the request has credentials or cookies. Its response may be meant for this
 * caller only (RFC 9111 §3.5).
 */
function credentialReason<Native>(
  request: RequestView,
  config: CacheConfig<Native>,
  isNotable: boolean,
): BypassDetail | undefined {
  if (config.identity !== undefined) return undefined
  const reason = callerReason(request, config, isNotable)
  if (reason !== undefined || config.cookies !== 'bypass') return reason
  return trimOws(requestField(request.headers, 'cookie') ?? '') === '' ? undefined : 'cookie'
}

/**
 * Returns a reason if the request identifies its caller, by a field or its connection. The option
 * `authorization: 'ignore'` does not cover a client certificate. A list has to name it, as
 * `client-certificate`.
 */
function callerReason<Native>(
  { headers, hasClientCertificate, hasLogin }: RequestView,
  { authorization, vary }: CacheConfig<Native>,
  isNotable: boolean,
): BypassDetail | undefined {
  const ignored = typeof authorization === 'object' ? authorization.ignore : NONE
  if (hasClientCertificate === true && !ignored.includes('client-certificate'))
    return 'client-certificate'
  if (authorization === 'ignore') return undefined
  if (!ignored.includes('authorization')) {
    if (headers.authorization !== undefined) return 'authorization'
    if (hasLogin === true) return 'connection-auth'
  }
  if (!isNotable) return undefined
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
  if (result instanceof Promise)
    throw callbackError('bypass', 'the function returned a promise; return a boolean')
  return result ? 'option' : undefined
}
