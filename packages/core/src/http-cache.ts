// createHttpCache: the response cache that the adapters wrap.

import { admit } from './cache/admit.ts'
import { audit, type ReadLog } from './cache/audit.ts'
import {
  CACHE_FUNCTION,
  type CacheConfig,
  type CacheRules,
  readCacheOptions,
} from './cache/cache-options.ts'
import type { CacheParts } from './cache/cache-parts.ts'
import { FirstRequests } from './cache/first-requests.ts'
import { handleCached } from './cache/handle-cached.ts'
import { cacheKey } from './cache/key.ts'
import { optionError } from './errors.ts'
import { checkCalled } from './options.ts'
import type {
  Exchange,
  Framework,
  InnerCache,
  Natives,
  OriginObserver,
  RequestView,
} from './ports/exchange.ts'
import type { Runtime } from './runtime.ts'
import { createStampede, isStampede, runtimeOf, type Stampede } from './stampede.ts'
import { warnOnce } from './warnings.ts'

/** Options of `stampedeCache`. */
export interface CacheOptions<Native = unknown, NativeResponse = unknown>
  extends CacheRules<Native, NativeResponse> {
  /** The Stampede that has the entries. Default: a new one with a memory store. */
  stampede?: Stampede | undefined
}

/** A response cache, as an adapter uses it. */
export interface HttpCache<Native = unknown> {
  /**
   * Responds to the request, or forwards it to the handler. Returns a promise unless it can finish
   * synchronously. Throws or rejects only with an error of a callback option, or of a handler that
   * was called through `forward`.
   */
  handle(exchange: Exchange<Native>): void | Promise<void>
  /**
   * Describes this cache to an outer cache that handles the same request. Undefined: this cache
   * bypasses the request.
   */
  inner(
    request: Pick<Exchange<Native>, 'request' | 'native'>,
    natives: Natives,
  ): InnerCache | undefined
  /**
   * Called at the first request, with the outermost app. Warns if another cache of that app has
   * other entries, because one of the two has no option `stampede`.
   */
  mountedIn(app: object): void
  /**
   * Set with the option `audit`. Called before `run` of the handler, with the log of what the
   * handler will read.
   */
  readonly audit?: ((request: RequestView, run: OriginObserver, reads: ReadLog) => void) | undefined
}

interface Mounted {
  readonly rt: Runtime
  /** The cache has no option `stampede`, so no other cache shares its entries. */
  readonly isAlone: boolean
}

/** The first cache of each app. */
const firstIn = new WeakMap<object, Mounted>()

const SEPARATE =
  'two stampedeCache() of one app have separate caches, because one has no option stampede: ' +
  'a purge of one cache does not reach the other, and each has limits of its own. Create one ' +
  'Stampede and pass it to each: stampedeCache({ stampede, ttlMs: 10_000 }).'

/**
 * Creates the response cache of one middleware. Throws `ERR_STAMPEDE_OPTION` if an option is not
 * valid.
 */
export function createHttpCache<Native = unknown, NativeResponse = unknown>(
  options?: CacheOptions<Native, NativeResponse>,
  framework: Framework<Native> = {},
): HttpCache<Native> {
  checkCalled(CACHE_FUNCTION, options, 'stampedeCache({ ttlMs: 10_000 })')
  if (isStampede(options))
    throw optionError(
      CACHE_FUNCTION,
      options,
      'pass it among the options: { stampede, ttlMs: 10_000 }',
    )
  const config = readCacheOptions(options)
  if (config.methods.has('QUERY') && framework.methods?.includes('QUERY') === false)
    throw optionError(
      `${CACHE_FUNCTION}.methods`,
      options?.methods,
      'the HTTP parser of this Node does not know QUERY; leave it out, or use Node 22.2 or newer',
    )
  // `null` is an error here. It does not select the default.
  const isAlone = options?.stampede === undefined
  const rt = runtimeOf(isAlone ? createStampede() : options.stampede)
  const { identity, key, cookies } = config
  const isPerCaller = identity !== undefined || key !== undefined || typeof cookies === 'object'
  const first = new FirstRequests(rt.events, isPerCaller)
  const cache: CacheParts<Native> = { rt, config, framework, index: undefined, first }
  return {
    handle: (handleCached<Native>).bind(undefined, cache),
    inner: (request, natives) => innerCache(request, natives, config),
    audit: config.audit ? audit.bind(undefined, config) : undefined,
    mountedIn(app) {
      const first = firstIn.get(app)
      if (first === undefined) firstIn.set(app, { rt, isAlone })
      else if (first.rt !== rt && (first.isAlone || isAlone))
        warnOnce('STAMPEDE_SEPARATE_CACHES', SEPARATE)
    },
  }
}

// Rules for a request that passes two caches: an outer one, and an inner one nearer to the handler.
// If their keys are equal, both would wait for the same fill. So the inner cache forwards the
// request, and the outer cache stores the response with the options of the inner one. If their keys
// differ, only the inner cache stores it (docs/decisions/0022).

/** A key that no cache has. */
const NO_KEY = ''

/**
 * Describes the cache with the options `config` to an outer cache. Returns undefined if the request
 * bypasses the cache, except by its `bypass` option. Throws the errors of the callbacks in
 * `config`.
 */
function innerCache<Native>(
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
  natives: Natives,
  config: CacheConfig<Native>,
): InnerCache | undefined {
  const refused = admit(request, native, config)
  // If the inner `bypass` option refused the request, the outer cache must not store the response.
  // NO_KEY ensures that. For any other reason, the options of the outer cache decide.
  if (refused !== undefined && refused !== 'option') return undefined
  const { rewritten, chosenBy } = request
  const keyOf: InnerCache['keyOf'] = (outer) =>
    refused ? NO_KEY : cacheKey({ ...outer, rewritten, chosenBy }, native, config, [])
  return { config, natives, keyOf }
}
