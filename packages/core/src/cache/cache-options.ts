// The options of stampedeCache: their types, and the check and default of each. Checks of more
// than one value are in option-checks.ts, except that of invalidateOn. The checked options are
// frozen and complete.

import { optionError } from '../errors.ts'
import { FILL_OPTIONS, type FillConfig, type FillRules } from '../fill-options.ts'
import {
  bytes,
  callback,
  checkNames,
  choice,
  DEFAULT_ORIGIN_TIMEOUT_MS,
  type Defined,
  durationMs,
  flag,
  type Reader,
  readOptions,
  unchecked,
} from '../options.ts'
import {
  type ResponseTags,
  readTags,
  TAGS,
  type Tags,
  type TagsConfig,
  type TagsRule,
} from '../tags.ts'
import { AUDIT, type AuditRules } from './audit.ts'
import {
  type AuthorizationRule,
  type KeyConfig,
  readAuthorization,
  readCacheName,
  readCookies,
  readMethods,
  readQuery,
  readStatuses,
  readTargetedFields,
  readVary,
  readWaitMs,
  refuseBodyRules,
} from './option-checks.ts'

export const CACHE_FUNCTION = 'stampedeCache'

/**
 * Options of `stampedeCache`, except `stampede`. All durations are whole milliseconds, up to 366
 * days. A wrong value throws `ERR_STAMPEDE_OPTION` when the middleware is created.
 *
 * Callbacks receive a `Native`: an Express request, a Koa context or an `IncomingMessage`. Some
 * also receive a `NativeResponse`: an Express, Koa or Node response.
 */
export interface CacheRules<Native = unknown, NativeResponse = unknown>
  extends FillRules,
    ResponseTags<Native, NativeResponse>,
    AuditRules {
  /**
   * Lifetime of a response without explicit freshness, which is `s-maxage`, `max-age` or `Expires`
   * (RFC 9111 §4.2.1). Unless `overrideHeaders` is set, explicit freshness can only shorten the
   * lifetime. At least 1. Default: none, so only responses with explicit freshness are stored.
   */
  ttlMs?: number | undefined
  /**
   * True: `ttlMs` replaces `max-age`, `s-maxage` and `Expires`. Responses with `no-store`,
   * `private`, `no-cache` or `Set-Cookie` are still not stored. Default false.
   */
  overrideHeaders?: boolean | undefined
  /**
   * Lifetime of 404 and 410 responses, in place of `ttlMs`. Explicit freshness can only shorten it.
   * At least 1. Default: such a response is stored only if it has explicit freshness or if its
   * status is in `statuses`.
   */
  negativeTtlMs?: number | undefined
  /**
   * Returns a string that replaces method, scheme, host, path and query in the key. If it throws or
   * returns something else, the request fails with `ERR_STAMPEDE_OPTION`. Default: none.
   */
  key?: ((request: Native) => string) | undefined
  /**
   * Methods whose responses are stored. HEAD belongs to GET. `['GET', 'QUERY']` also stores
   * responses to QUERY (RFC 10008), with the body in the key. Default `['GET']`.
   */
  methods?: ReadonlyArray<'GET' | 'QUERY'> | undefined
  /**
   * Query parameters in the key. `['page']`: only these. `{ ignore: ['utm_source'] }`: all except
   * these. Default: all.
   *
   * `body` and `maxBytes` are for QUERY. Without it in `methods`, they are an option error.
   */
  query?:
    | readonly string[]
    | {
        ignore?: readonly string[] | undefined
        /**
         * The part of the body of a QUERY that is in the key, as a digest. `'canonical'`: two
         * spellings of one JSON value share a response. `'bytes'`: equal bytes do. A function
         * returns the value by which requests differ. If it throws, or JSON cannot represent the
         * value, the request bypasses the cache. Default `'canonical'`.
         */
        body?: 'canonical' | 'bytes' | ((request: Native) => unknown) | undefined
        /** Bytes. A larger body of a QUERY bypasses the cache. Default 65 536. */
        maxBytes?: number | undefined
      }
    | undefined
  /**
   * Request headers that are always in the key, such as `['accept-language']`. Headers in the
   * `Vary` field of a response need not be listed. Default: none.
   */
  vary?: readonly string[] | undefined
  /**
   * Returns the id of the caller, a string that becomes part of the key. Requests with credentials
   * or cookies then use the cache, with entries for each caller. If it throws or returns something
   * else, the request fails with `ERR_STAMPEDE_OPTION`. Default: none.
   */
  identity?: ((request: Native) => string) | undefined
  /**
   * Requests with a credential field: `Authorization`, or another field whose name identifies the
   * caller (`X-Api-Key`, `X-User-Id`, ...). `'bypass'`, the default: they bypass the cache.
   * `'ignore'`: responses do not depend on any of these fields. `{ ignore: ['x-tenant-id'] }`:
   * responses do not depend on the listed fields. A TLS client certificate is ignored only if the
   * list has `client-certificate`.
   */
  authorization?: 'bypass' | 'ignore' | { ignore: readonly string[] } | undefined
  /**
   * Requests with `Cookie`. `'bypass'`, the default: they bypass the cache. `'ignore'`: responses
   * do not depend on cookies. `{ key: ['lang'] }`: responses depend only on the listed cookies,
   * which become part of the key.
   */
  cookies?: 'bypass' | 'ignore' | { key: readonly string[] } | undefined
  /**
   * Response fields with directives for this cache (RFC 9213 §2.2), such as `CDN-Cache-Control`.
   * The first valid one replaces `Cache-Control` and `Expires`. `Stampede-Cache-Control` always
   * comes first, and clients never get it. Default: no other field.
   */
  targetedFields?: readonly string[] | undefined
  /**
   * Statuses, from 200 to 499, of responses that may be stored without explicit freshness. Their
   * lifetime is `ttlMs`. A status that is never stored, such as 206 or 401, is an error. Default
   * 200, 203, 300, 301, 308.
   */
  statuses?: readonly number[] | undefined
  /**
   * `Cache-Control` and `Pragma` of a request (RFC 9111 §5.2.1). `'ignore'`, the default, or
   * `'respect'`, with which any client can reach the handler at will.
   */
  requestDirectives?: 'ignore' | 'respect' | undefined
  /**
   * Bytes of the largest body that is stored. Larger ones only reach their client. Default 1 MiB.
   * Above 4 MiB, an entry is not stored in Redis, but in the memory of each process.
   */
  maxBodyBytes?: number | undefined
  /**
   * How long a request waits for the fill of another request, or for a concurrency slot (see
   * `originConcurrency` of `createStampede`). Default 30 000.
   */
  waitMs?: number | undefined
  /**
   * The response to a request that has waited for `waitMs`. `'origin'`, the default: the request
   * runs the handler itself. `'unavailable'`: the client gets a 503.
   */
  afterWait?: 'origin' | 'unavailable' | undefined
  /**
   * How long a fill may take. After that, the fill counts as failed. Only the client whose request
   * started the fill goes on waiting for the handler. At least 1. Default 30 000.
   */
  originTimeoutMs?: number | undefined
  /**
   * How a stale entry is refreshed. `'background'`, the default: all clients get the stale entry.
   * `'foreground'`: the client whose request got the lease waits for the new response.
   */
  revalidate?: 'background' | 'foreground' | undefined
  /**
   * Purges by unsafe requests (`POST`, `PUT`, ...) with a 2xx or 3xx response:
   *
   * - `'unsafe'`, the default, purges the URL of the request and the URLs in `Location` and
   *   `Content-Location` of the response (RFC 9111 §4.4). It also purges the cache groups in
   *   `Cache-Group-Invalidation` (RFC 9875 §3).
   * - `{ tags }` purges these tags too.
   * - `'parents'` also purges the path of the request and each path above it, up to the path under
   *   which the middleware is mounted: with every query, for every caller. Of a path with more than
   *   16 levels, it purges the 15 levels nearest to the mount.
   * - `'all'` also purges everything that this middleware and others with this option and the same
   *   name (`cacheStatus`) have stored in this Stampede, for every caller.
   * - `'never'` purges nothing.
   */
  invalidateOn?:
    | 'unsafe'
    | 'parents'
    | 'all'
    | 'never'
    | { tags: Tags<[request: Native, response: NativeResponse]> }
    | undefined
  /**
   * Returns true for requests that go to the handler and whose responses are not stored. If it
   * throws or returns a promise, the request fails with `ERR_STAMPEDE_OPTION`. Default: none.
   */
  bypass?: ((request: Native) => boolean) | undefined
  /**
   * The response field `Cache-Status` (RFC 9211). False: the field is not sent. A string: the name
   * of this cache in the field. Default true, with the name `Stampede`.
   */
  cacheStatus?: boolean | string | undefined
}

const INVALIDATIONS = ['unsafe', 'parents', 'all', 'never'] as const

interface InvalidationRules {
  readonly invalidateOn: (typeof INVALIDATIONS)[number]
  /** Tags that an unsafe request purges in addition to its URL. */
  readonly invalidatedTags: TagsRule
}

function readInvalidation(where: string, value: unknown): InvalidationRules {
  const named = INVALIDATIONS.find((each) => each === (value === undefined ? 'unsafe' : value))
  if (named !== undefined) return { invalidateOn: named, invalidatedTags: undefined }
  if (typeof value === 'object' && value !== null && 'tags' in value) {
    const { tags } = checkNames(where, value, ['tags'])
    return { invalidateOn: 'unsafe', invalidatedTags: readTags(`${where}.tags`, tags) }
  }
  throw optionError(
    where,
    value,
    "use 'unsafe', 'parents', 'all', 'never', or { tags: (req, res) => ['products'] }",
  )
}

/** Options whose default is undefined. */
type Optional = 'ttlMs' | 'negativeTtlMs' | 'key' | 'identity' | 'bypass'

/** The options of `CacheRules`, checked and complete. */
export interface CacheConfig<Native = unknown>
  extends InvalidationRules,
    FillConfig,
    TagsConfig,
    Readonly<Required<Pick<CacheRules<Native>, Optional>>>,
    Defined<
      Omit<
        CacheRules,
        | Optional
        | 'invalidateOn'
        | 'cacheStatus'
        | keyof Converted
        | keyof FillConfig
        | keyof TagsConfig
      >
    >,
    Converted {
  /** Name of the cache in `Cache-Status`. Undefined: no such field is sent. */
  readonly cacheName: string | undefined
  /** Whether `tags` or `invalidateOn: 'all'` gives subjects to responses. */
  readonly addsSubjects: boolean
}

/** Options that have another form after the check. */
interface Converted extends KeyConfig {
  /** Methods that use the cache. */
  readonly methods: ReadonlySet<string>
  readonly authorization: AuthorizationRule
  /** Field names, lower-case. The first valid one counts. `OWN_FIELD` is always the first. */
  readonly targetedFields: readonly string[]
  readonly statuses: ReadonlySet<number>
}

const OPTIONS = {
  stampede: unchecked(),
  ttlMs: durationMs(undefined, 1),
  overrideHeaders: flag(false),
  negativeTtlMs: durationMs(undefined, 1),
  key: callback<CacheConfig<never>['key']>(),
  methods: readMethods,
  query: readQuery,
  vary: readVary,
  identity: callback<CacheConfig<never>['identity']>(),
  authorization: readAuthorization,
  cookies: readCookies,
  targetedFields: readTargetedFields,
  statuses: readStatuses,
  requestDirectives: choice('ignore', 'respect'),
  maxBodyBytes: bytes(1024 * 1024),
  waitMs: readWaitMs,
  afterWait: choice('origin', 'unavailable'),
  originTimeoutMs: durationMs(DEFAULT_ORIGIN_TIMEOUT_MS, 1),
  revalidate: choice('background', 'foreground'),
  invalidateOn: readInvalidation,
  bypass: callback<CacheConfig<never>['bypass']>(),
  cacheStatus: readCacheName,
  ...FILL_OPTIONS,
  // In place of the default of getOrSet, which is 0.
  keepMs: durationMs(60_000),
  ...TAGS,
  ...AUDIT,
} satisfies Record<keyof CacheRules | 'stampede', Reader>

/** Checks the options of stampedeCache and fills in defaults. Throws `ERR_STAMPEDE_OPTION`. */
export function readCacheOptions<Native, NativeResponse>(
  options?: CacheRules<Native, NativeResponse>,
): CacheConfig<Native> {
  const {
    stampede: _,
    cacheStatus,
    invalidateOn,
    query,
    ...read
  } = readOptions(CACHE_FUNCTION, options, OPTIONS)
  if (!read.methods.has('QUERY')) refuseBodyRules(`${CACHE_FUNCTION}.query`, options?.query)
  const addsSubjects = read.tags !== undefined || invalidateOn.invalidateOn === 'all'
  return Object.freeze({
    ...{ ...read, ...invalidateOn, ...query, cacheName: cacheStatus, addsSubjects },
  }) as CacheConfig<Native>
}

/**
 * Options for a cache that follows RFC 9111 and RFC 9213: `stampedeCache({ ...strict, stampede })`.
 *
 * - `requestDirectives: 'respect'`: clients may demand newer responses (RFC 9111 §5.2.1). So any
 *   client can reach the origin at will.
 * - `targetedFields`: `CDN-Cache-Control` takes precedence over `Cache-Control` (RFC 9213 §3.1).
 *
 * Do not add `overrideHeaders`, `ttlMs` or stale windows: they go beyond the RFCs.
 */
export const strict: Defined<Pick<CacheRules, 'requestDirectives' | 'targetedFields'>> =
  Object.freeze({
    requestDirectives: 'respect',
    targetedFields: Object.freeze(['CDN-Cache-Control']),
  })
