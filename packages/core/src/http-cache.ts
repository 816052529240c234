// createHttpCache: what the adapters are built on. Options in, one `handle` out.

import { WHERE } from './cache/cache-config.ts'
import { type CacheRules, readCacheOptions } from './cache/cache-options.ts'
import { handleCached } from './cache/handle-cached.ts'
import { innerCache } from './cache/inner-cache.ts'
import { VaryIndex } from './cache/vary-index.ts'
import { optionError } from './errors.ts'
import type { Exchange, InnerCache, Natives } from './ports/exchange.ts'
import { createStampede, isStampede, runtimeOf, type Stampede } from './stampede.ts'

/** Options of `stampedeCache`. */
export interface CacheOptions<Native = unknown, NativeResponse = unknown>
  extends CacheRules<Native, NativeResponse> {
  /** The Stampede to cache in. Default: one of its own, in memory. */
  stampede?: Stampede
}

export interface HttpCache<Native = unknown> {
  /**
   * Responds to the request, or hands it to the app. A promise when that takes time. It rejects, and the
   * call throws, only with what the user's own callbacks or (through `bypass`) the app threw.
   */
  handle(exchange: Exchange<Native>): void | Promise<void>
  /** This cache as one further out is to be told of it, which has taken the request on. Undefined: it takes no part. */
  inner(
    request: Pick<Exchange<Native>, 'request' | 'native'>,
    natives: Natives,
  ): InnerCache | undefined
}

/** Checks the options, once. Throws `ERR_STAMPEDE_OPTION`. */
export function createHttpCache<Native = unknown, NativeResponse = unknown>(
  options?: CacheOptions<Native, NativeResponse>,
): HttpCache<Native> {
  if (isStampede(options))
    throw optionError(WHERE, options, 'pass it among the options: { stampede, ttlMs: 10_000 }')
  const config = readCacheOptions(options)
  // `null` is a mistake, not a wish for a cache of one's own.
  const rt = runtimeOf(options?.stampede === undefined ? createStampede() : options.stampede)
  const index = new VaryIndex()
  return {
    handle: (exchange) => handleCached(rt, config, index, exchange),
    inner: (request, natives) => innerCache(request, natives, config),
  }
}
