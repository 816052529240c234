// The options of stampedeCache: their types, defaults and checks. The result is frozen and complete,
// so that no stage has to ask what was meant.

import { readCompression } from '../compress/read-compression.ts'
import { optionError } from '../errors.ts'
import {
  DEFAULT_LEASE_MS,
  DEFAULT_ORIGIN_TIMEOUT_MS,
  DEFAULT_WAIT_MS,
  earlyRefresh,
  jitter,
} from '../flight/policy.ts'
import {
  bytes,
  callback,
  choice,
  durationMs,
  flag,
  type Reader,
  readOptions,
  unchecked,
} from '../options.ts'
import { readTags } from '../tags.ts'
import type { CacheConfig } from './cache-config.ts'
import { WHERE } from './cache-config.ts'
import {
  readAuthorization,
  readCacheName,
  readCookies,
  readInvalidation,
  readQuery,
  readStatuses,
  readTargetedFields,
  readVary,
} from './read-options.ts'

/**
 * Options of `stampedeCache`, but for which Stampede to use. Durations are milliseconds. `Native` is what callbacks receive: an Express
 * request, a Koa context, an IncomingMessage; `NativeResponse` what some receive besides.
 */
export interface CacheRules<Native = unknown, NativeResponse = unknown> {
  /**
   * Lifetime of a response that says nothing itself; explicit freshness in the response shortens it.
   * Without it, only responses with explicit freshness (RFC 9111 §4.2.1) are stored.
   */
  ttlMs?: number
  /** Lets `ttlMs` win over max-age, s-maxage and Expires. Never over no-store, private, no-cache. Default false. */
  overrideHeaders?: boolean
  /** How long after going stale an entry is served while one process refreshes it (RFC 5861). Default 0. */
  staleWhileRevalidateMs?: number
  /** How long after going stale an entry is served when the origin fails (RFC 5861). Default 0. */
  staleIfErrorMs?: number
  /**
   * How long after going stale an entry with an ETag or Last-Modified is kept, not to be served, but to ask the app whether it is still
   * so (304). Default 60 000; 0: not at all.
   */
  keepMs?: number
  /** Lifetime of 404 and 410. Default: they are not stored. */
  negativeTtlMs?: number
  /** Shortens each lifetime by a random part of itself, up to this fraction. 0 to 0.5, default 0.1. */
  jitter?: number
  /** Replaces method, host, path and query in the key. */
  key?: (request: Native) => string
  /** Query parameters in the key: only these, or all but these. Default: all. */
  query?: readonly string[] | { ignore: readonly string[] }
  /** Request headers always in the key. `Vary` in responses counts whether listed here or not. */
  vary?: readonly string[]
  /** Puts the caller in the key, and so makes requests with credentials cacheable. */
  identity?: (request: Native) => string
  /**
   * Requests with a credential field: `Authorization`, or another field whose name identifies the
   * caller (`X-Api-Key`, `X-User-Id`, ...). Default `bypass`: they bypass the cache. `ignore`: the
   * cache disregards all these fields. A list: it disregards the named ones. A TLS client
   * certificate is disregarded only if the list has `client-certificate`.
   */
  authorization?: 'bypass' | 'ignore' | { ignore: readonly string[] }
  /** Requests with `Cookie`: `bypass` (default), `ignore` them, or put the named ones in the key. */
  cookies?: 'bypass' | 'ignore' | { key: readonly string[] }
  /**
   * Response fields with directives for this cache (RFC 9213), such as `CDN-Cache-Control`: the first that is valid takes
   * the place of Cache-Control and Expires. `Stampede-Cache-Control` is always the first, and no client gets it.
   */
  targetedFields?: readonly string[]
  /**
   * Names under which what is stored can be purged, together with others: `purge({ tag })`. A function is asked when the head of a
   * response that is to be stored is known. `Surrogate-Key`, `Cache-Tag` and `Cache-Groups` of the response count too. Default: none.
   */
  tags?: Tags<Native, NativeResponse>
  /** Statuses stored when the response gives no explicit freshness. Default 200, 203, 300, 301, 308. */
  statuses?: readonly number[]
  /**
   * Gives a stored 200 that came without ETag and Last-Modified a weak ETag. Default true. An
   * Express app whose `etag` setting is off gets none.
   */
  mintEtag?: boolean
  /**
   * Cache-Control and Pragma of a request (RFC 9111 §5.2.1): `ignore` them (default), or `respect` them, which lets any client
   * reach the origin at will.
   */
  requestDirectives?: 'ignore' | 'respect'
  /**
   * Sends stored answers of text and the like compressed to clients that take it: `br`, `zstd` (from Node 22.15) or `gzip`, made once for
   * each entry in memory, behind the first hit that could have used it. Default false.
   */
  compress?: boolean | CompressionOptions
  /** Largest body stored. Default 1 MiB. */
  maxBodyBytes?: number
  /** How long a silent filler is trusted before another may try; renewed while it lives. Default 5 000. */
  leaseMs?: number
  /** How long a request waits for another's fill, or for a concurrency slot. Default 30 000. */
  waitMs?: number
  /** What a request gets after `waitMs`: its own run of the `origin` (default), or 503: `unavailable`. */
  afterWait?: 'origin' | 'unavailable'
  /**
   * Whether requests of one process for the same response `wait` for the whole of it (default), or get it as it comes: a `stream`.
   */
  collapse?: 'wait' | 'stream'
  /** When a fill is given up: its client goes on waiting, everybody else is told it failed. Default 30 000. */
  originTimeoutMs?: number
  /**
   * When a fill is late: everybody who waits is answered with what is stale or kept for errors, if there is something, and the fill goes
   * on behind. Default: never.
   */
  softTimeoutMs?: number
  /** Who refreshes a stale entry: `background` (default), or in the `foreground` the client that got the lease. */
  revalidate?: 'background' | 'foreground'
  /**
   * Refreshes fresh entries before their time, behind the answer, once in the fleet: the likelier the nearer their end and the slower
   * the handler, by this factor. 1 is as published (XFetch), more begins earlier. 0 to 100, default 0: off.
   */
  earlyRefresh?: number
  /**
   * What makes stored answers obsolete: an `unsafe` request (POST, PUT, ...) that was answered 2xx or 3xx, for its URL and those in
   * `Location` and `Content-Location` (default, RFC 9111 §4.4), and the groups in `Cache-Group-Invalidation` (RFC 9875); such a request
   * with `tags` of its own, which are purged as well; or `never`: time and purges alone.
   */
  invalidateOn?: 'unsafe' | 'never' | { tags: Tags<Native, NativeResponse> }
  /** Requests for which it returns true go to the app, neither looked up nor stored. */
  bypass?: (request: Native) => boolean
  /** The `Cache-Status` field (RFC 9211): on (default) or off, or another name for the cache. */
  cacheStatus?: boolean | string
  /** For development: warns when the handler reads a header, cookie or query parameter that is not in the key. Default false. */
  audit?: boolean
}

export interface CompressionOptions {
  /** The smallest body that is worth it. Default 1024. */
  minBytes?: number
  /** Media types; `*` stands for any part: `text/*`, `application/*+json`. Default: text, JSON, XML, JavaScript, SVG, Wasm, fonts. */
  types?: readonly string[]
  /** In the order of preference. Default: all there are. */
  codings?: ReadonlyArray<'br' | 'zstd' | 'gzip'>
}

/** Names, or what makes them of a request and the response to it. */
type Tags<Native, NativeResponse> =
  | readonly string[]
  | ((request: Native, response: NativeResponse) => readonly string[])

const OPTIONS = {
  stampede: unchecked(),
  ttlMs: durationMs(undefined, 1),
  overrideHeaders: flag(false),
  staleWhileRevalidateMs: durationMs(0),
  staleIfErrorMs: durationMs(0),
  keepMs: durationMs(60_000),
  negativeTtlMs: durationMs(undefined, 1),
  jitter,
  key: callback<CacheConfig<never>['key']>(),
  query: readQuery,
  vary: readVary,
  identity: callback<CacheConfig<never>['identity']>(),
  authorization: readAuthorization,
  cookies: readCookies,
  targetedFields: readTargetedFields,
  tags: readTags,
  statuses: readStatuses,
  mintEtag: flag(true),
  requestDirectives: choice('ignore', 'respect'),
  compress: readCompression,
  maxBodyBytes: bytes(1024 * 1024),
  leaseMs: durationMs(DEFAULT_LEASE_MS, 100),
  waitMs: readWaitMs,
  afterWait: choice('origin', 'unavailable'),
  collapse: choice('wait', 'stream'),
  originTimeoutMs: durationMs(DEFAULT_ORIGIN_TIMEOUT_MS, 1),
  softTimeoutMs: durationMs(undefined, 1),
  revalidate: choice('background', 'foreground'),
  earlyRefresh,
  invalidateOn: readInvalidation,
  bypass: callback<CacheConfig<never>['bypass']>(),
  cacheStatus: readCacheName,
  audit: flag(false),
} satisfies Record<keyof CacheRules | 'stampede', Reader>

/** Checks the options of stampedeCache and fills in defaults. Throws `ERR_STAMPEDE_OPTION`. */
export function readCacheOptions<Native, NativeResponse>(
  options?: CacheRules<Native, NativeResponse>,
): CacheConfig<Native> {
  const { stampede: _, cacheStatus, invalidateOn, ...read } = readOptions(WHERE, options, OPTIONS)
  return Object.freeze({ ...read, ...invalidateOn, cacheName: cacheStatus }) as CacheConfig<Native>
}

/** The object with `ms` and `fallback` that was accepted before 0.1 is refused with the new names. */
function readWaitMs(where: string, value: unknown): number {
  if (typeof value !== 'object' || value === null) return durationMs(DEFAULT_WAIT_MS)(where, value)
  throw optionError(where, value, "use { waitMs: 30_000, afterWait: 'unavailable' }")
}

/**
 * Options for a cache that follows RFC 9111 and RFC 9213: `stampedeCache({ ...strict, stampede })`.
 *
 * - `requestDirectives: 'respect'`: clients may ask for newer responses (RFC 9111 §5.2.1). Any
 *   client can then reach the origin at will.
 * - `targetedFields`: `CDN-Cache-Control` takes precedence over `Cache-Control` (RFC 9213 §3.1).
 *
 * Do not add `overrideHeaders`, `ttlMs` or stale windows: they go beyond the RFCs.
 */
export const strict: Readonly<Required<Pick<CacheRules, 'requestDirectives' | 'targetedFields'>>> =
  Object.freeze({
    requestDirectives: 'respect',
    targetedFields: Object.freeze(['CDN-Cache-Control']),
  })
