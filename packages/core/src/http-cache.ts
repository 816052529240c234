// createHttpCache: the response cache that the adapters wrap.

import { CACHE_FUNCTION, type CacheRules, readCacheOptions } from './cache/cache-options.ts'
import { handleCached } from './cache/handle-cached.ts'
import { innerCache } from './cache/inner-cache.ts'
import { VaryIndex } from './cache/vary-index.ts'
import { optionError } from './errors.ts'
import { NeverStored } from './never-stored.ts'
import { checkCalled } from './options.ts'
import type { Exchange, InnerCache, Natives } from './ports/exchange.ts'
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

/** Creates a response cache. Throws `ERR_STAMPEDE_OPTION` if an option is not valid. */
export function createHttpCache<Native = unknown, NativeResponse = unknown>(
  options?: CacheOptions<Native, NativeResponse>,
): HttpCache<Native> {
  checkCalled(CACHE_FUNCTION, options, 'stampedeCache({ ttlMs: 10_000 })')
  if (isStampede(options))
    throw optionError(
      CACHE_FUNCTION,
      options,
      'pass it among the options: { stampede, ttlMs: 10_000 }',
    )
  const config = readCacheOptions(options)
  // `null` is an error here. It does not select the default.
  const isAlone = options?.stampede === undefined
  const rt = runtimeOf(isAlone ? createStampede() : options.stampede)
  const index = new VaryIndex()
  const watch = new NeverStored()
  return {
    handle: (exchange) => handleCached(rt, config, index, watch, exchange),
    inner: (request, natives) => innerCache(request, natives, config),
    mountedIn(app) {
      const first = firstIn.get(app)
      if (first === undefined) firstIn.set(app, { rt, isAlone })
      else if (first.rt !== rt && (first.isAlone || isAlone))
        warnOnce('STAMPEDE_SEPARATE_CACHES', SEPARATE)
    },
  }
}
