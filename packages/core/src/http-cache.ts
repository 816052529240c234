// createHttpCache: what the adapters are built on. Options in, one `handle` out.

import { type Begun, begin } from './cache/begin.ts'
import { WHERE } from './cache/cache-config.ts'
import { type CacheRules, readCacheOptions } from './cache/cache-options.ts'
import { handleCached } from './cache/handle-cached.ts'
import { hitAtOnce } from './cache/hit-at-once.ts'
import { innerCache } from './cache/inner-cache.ts'
import { VaryIndex } from './cache/vary-index.ts'
import { optionError } from './errors.ts'
import type { Exchange, InnerCache, Natives, ReadyReply, RequestView } from './ports/exchange.ts'
import { createStampede, isStampede, runtimeOf, type Stampede } from './stampede.ts'

/** Options of `stampedeCache`. */
export interface CacheOptions<Native = unknown, NativeResponse = unknown>
  extends CacheRules<Native, NativeResponse> {
  /** The Stampede to cache in. Default: one of its own, in memory. */
  stampede?: Stampede
}

export interface HttpCache<Native = unknown> {
  /**
   * The answer, where memory has it, fresh, and it is all that is asked for; nothing else is to be done then. Otherwise what
   * `handle` goes on from. Throws only what the user's own callbacks threw.
   */
  begin(request: RequestView, native: Native): ReadyReply | Begun
  /**
   * Answers the request, or hands it to the app. A promise when that takes time; it rejects, and the call
   * throws, only with what the user's own callbacks or (through `bypass`) the app threw.
   */
  handle(exchange: Exchange<Native>, begun?: Begun): void | Promise<void>
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
    begin(request, native) {
      const begun = begin(rt, config, request, native)
      return hitAtOnce(rt, config, index, request, native, begun) ?? begun
    },
    handle: (exchange, begun) => handleCached(rt, config, index, exchange, begun),
    inner: (request, natives) => innerCache(request, natives, config),
  }
}
