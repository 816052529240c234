// Stage: who takes part. Everybody else goes to the app, neither looked up nor stored, with a reason.
// `BYPASS_DETAILS` lists the reasons.
//
// A HEAD takes part in the look-up only. `no-cache`, `no-store` and `only-if-cached` of a request are
// advice (RFC 9111 §5.2.1) that would let any client reach the origin at will: they are not read here, and
// after the look-up only where the options say so (`requestDirectives`).

import { callbackError } from '../errors.ts'
import type { BypassDetail } from '../http/cache-status-details.ts'
import { requestField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import { Recent } from '../recent.ts'
import type { CacheConfig } from './cache-config.ts'
import { saysWho } from './credential-fields.ts'

/** Why a request does not take part, and the `fwd` it gets in Cache-Status. */
export interface Bypass {
  readonly reason: BypassDetail | 'method'
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
  const isNotable = hasNotableField(request.headers)
  const reason =
    shapeReason(request, isNotable) ??
    credentialReason(request, config, isNotable) ??
    optionReason(native, config)
  return reason === undefined ? undefined : { reason, fwd: 'bypass' }
}

/**
 * Whether any field is a credential or a method override. Hardly any request has one, so this one
 * pass spares the checks that follow.
 */
function hasNotableField(headers: RequestView['headers']): boolean {
  for (const name in headers) if (isNotableName(name)) return true
  return false
}

/** Verdict per field name. Made-up names may evict others, which are then only judged again. */
const judged = new Recent<boolean>(1_024)
const LONGEST_JUDGED = 64

function isNotableName(name: string): boolean {
  const known = judged.get(name)
  if (known !== undefined) return known
  const is = OVERRIDES.includes(name) || saysWho(name)
  if (name.length <= LONGEST_JUDGED) judged.set(name, is)
  return is
}

const OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override']

/** RFC 9111 §4: what the key cannot stand for. */
function shapeReason(
  { target, headers, hasBody }: RequestView,
  isNotable: boolean,
): BypassDetail | undefined {
  // RFC 9112 §3.2.1: no client sends a fragment, and behind one a `?` starts no query.
  if (!target.startsWith('/') || target.includes('#')) return 'target'
  if (headers.upgrade !== undefined) return 'upgrade'
  if (isNotable && OVERRIDES.some((name) => headers[name] !== undefined)) return 'method-override'
  if (hasBody === true || framesBody(headers)) return 'request-body'
  if (headers['if-match'] !== undefined) return 'precondition'
  if (headers['if-unmodified-since'] !== undefined) return 'precondition'
  return undefined
}

/** RFC 9112 §6.3: a request over HTTP/1 has a body if it frames one. */
function framesBody(headers: RequestView['headers']): boolean {
  if (headers['transfer-encoding'] !== undefined) return true
  const length = requestField(headers, 'content-length')
  return length !== undefined && !/^0+$/.test(length)
}

/**
 * RFC 9111 §3.5, and by the same reasoning for cookies: credentials make a response one caller's.
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
 * `authorization: 'ignore'` covers header fields. It does not cover a client certificate: that has
 * to be named, as `client-certificate`.
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
    if (!saysWho(name) || headers[name] === undefined || name === 'authorization') continue
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
  let answer: unknown
  try {
    answer = config.bypass(native)
  } catch (cause) {
    throw callbackError('bypass', 'the function threw', cause)
  }
  // An async function would bypass everything, and nobody would notice.
  if (answer instanceof Promise)
    throw callbackError('bypass', 'the function returned a promise; return a boolean')
  return answer ? 'option' : undefined
}
