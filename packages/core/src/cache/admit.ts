// Decides which requests use the cache. Any other request bypasses it, with a reason.
// `BYPASS_DETAILS` lists the reasons.
//
// A HEAD request may get a stored response, but its own response is never stored. `no-cache`,
// `no-store` and `only-if-cached` of a request are advice (RFC 9111 §5.2.1) that would let any
// client reach the origin at will. This stage ignores them. Later stages respect them only with
// `requestDirectives: 'respect'`.

import { callbackError } from '../errors.ts'
import { beginsBeyond } from '../http/byte-range.ts'
import type { BypassDetail } from '../http/cache-status.ts'
import { identifiesCaller } from '../http/credential-fields.ts'
import { requestField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import { Recent } from '../recent.ts'
import type { Runtime } from '../runtime.ts'
import type { CacheConfig } from './cache-options.ts'
import type { CacheParts } from './cache-parts.ts'
import { callOption, isKeyed } from './key.ts'

/** The reason for which a request bypasses the cache. */
export type Bypass = BypassDetail | 'method'

/**
 * Returns `undefined` if the request may use the cache. Throws if the `bypass` option throws or
 * returns a promise.
 */
export function admit<Native>(
  request: RequestView,
  native: Native,
  config: CacheConfig<Native>,
): Bypass | undefined {
  if (!config.methods.has(request.method)) return 'method'
  // Hardly any request has such a field. Without one, later checks need not loop over the fields.
  let hasBypassField = false
  for (const name in request.headers) if (isBypassField(name)) hasBypassField = true
  return (
    request.lostLines ??
    shapeReason(request, hasBypassField) ??
    credentialReason(request, config, hasBypassField) ??
    (config.bypass && optionReason(native, config.bypass))
  )
}

/**
 * Recently seen field names, and whether each may cause a bypass. If a client sends many names,
 * they evict others. An evicted name is only checked again.
 */
const recentNames = new Recent<boolean>(1_024)
/** Longer names are checked for each request. */
const LONGEST_RECENT = 64

/** Whether the field may cause a bypass: a credential or a method override. */
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
  { method, target, headers, hasBody }: RequestView,
  hasBypassField: boolean,
): BypassDetail | undefined {
  // A target with a fragment is invalid (RFC 9112 §3.2.1). Its key would be wrong, because a `?`
  // inside a fragment begins no query.
  if (!target.startsWith('/') || target.includes('#')) return 'target'
  if (headers.upgrade !== undefined) return 'upgrade'
  if (hasBypassField && OVERRIDES.some((name) => headers[name] !== undefined))
    return 'method-override'
  if (headers['if-match'] !== undefined) return 'precondition'
  if (headers['if-unmodified-since'] !== undefined) return 'precondition'
  if (method === 'QUERY') return undefined
  if (hasBody === true) return 'request-body'
  // In HTTP/1, a header field declares each body (RFC 9112 §6.3).
  if (headers['transfer-encoding'] !== undefined) return 'request-body'
  const length = requestField(headers, 'content-length')
  if (length !== undefined && !/^0+$/.test(length)) return 'request-body'
  return undefined
}

/**
 * Returns a reason if the request has credentials or cookies, or if its connection identifies the
 * caller. The response may be for this caller only (RFC 9111 §3.5). A client certificate is ignored
 * only if the `authorization` option has a list with `client-certificate`.
 */
function credentialReason<Native>(
  { headers, hasClientCertificate, hasLogin }: RequestView,
  config: CacheConfig<Native>,
  hasBypassField: boolean,
): BypassDetail | undefined {
  const { identity, authorization, cookies } = config
  if (identity !== undefined) return undefined
  const ignored = typeof authorization === 'object' ? authorization.ignore : NONE
  if (hasClientCertificate === true && !ignored.includes('client-certificate'))
    return 'client-certificate'
  if (authorization !== 'ignore' && !ignored.includes('authorization')) {
    if (headers.authorization !== undefined) return 'authorization'
    if (hasLogin === true) return 'connection-auth'
  }
  if (authorization !== 'ignore' && hasBypassField) {
    for (const name in headers) {
      if (name === 'authorization' || headers[name] === undefined) continue
      if (!identifiesCaller(name)) continue
      if (!ignored.includes(name) && !isKeyed(config, name)) return 'authorization'
    }
  }
  if (cookies !== 'bypass' || headers.cookie === undefined) return undefined
  return trimOws(requestField(headers, 'cookie') ?? '') === '' ? undefined : 'cookie'
}

const NONE: readonly string[] = []

function optionReason<Native>(
  native: Native,
  bypass: (native: Native) => unknown,
): BypassDetail | undefined {
  const result = callOption('bypass', bypass, native)
  // A promise is truthy, so an async function would make all requests bypass the cache unnoticed.
  if (result instanceof Promise)
    throw callbackError('bypass', 'the function returned a promise; return a boolean')
  return result ? 'option' : undefined
}

// Ranges for which a fill could make the handler read the whole of a file too large to store.
// Requests for them are forwarded, also for all ranges of paths whose response was too large.

/** A fill may read this many bytes in front of a range, even if no entry may be so large. */
const MOST_DROPPED = 1024 * 1024
/** Limits of `Runtime.largePaths`: paths, and characters of one. */
const MOST_PATHS = 1_000
const LONGEST_PATH = 1_000

const pathOf = ({ host, target }: RequestView): string => host + target.split('?', 1)[0]

export function keepLargePath({ largePaths, clock, passMs }: Runtime, request: RequestView): void {
  const path = pathOf(request)
  if (largePaths.size >= MOST_PATHS) largePaths.clear()
  if (path.length <= LONGEST_PATH) largePaths.set(path, clock.now() + passMs)
}

/**
 * Whether the request wants a part of a response that was too large within the last `passMs`, bytes
 * that no entry can have, or the last bytes of a response of unknown length. A range of a response
 * that is being made comes from that one, and a range of an entry in this process from that entry.
 */
export function isBeyondEntries(
  { rt, config }: CacheParts,
  request: RequestView,
  key: string,
): boolean {
  const range = requestField(request.headers, 'range')
  if (range === undefined) return false
  if (rt.clock.now() < (rt.largePaths.get(pathOf(request)) ?? 0)) return true
  if (rt.flights.has(key) || rt.l1.get(key)?.type === 'copy') return false
  return beginsBeyond(range, Math.max(config.maxBodyBytes, MOST_DROPPED))
}
