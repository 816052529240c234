// Rules for a request that passes two caches: an outer one, and an inner one nearer to the handler.
// If their keys are equal, both would wait for the same fill. So the inner cache forwards the
// request, and the outer cache stores the response by the rules of the inner one. If their keys
// differ, only the inner cache stores it (docs/decisions/0022).

import type { Exchange, InnerCache, Natives } from '../ports/exchange.ts'
import { admit } from './admit.ts'
import type { CacheConfig } from './cache-config.ts'
import { cacheKey } from './key.ts'
import type { NotStorable } from './storable.ts'

export const STORED_BY_INNER: NotStorable = { store: false, reason: 'inner-cache', failure: false }

/** A key that no cache has. */
const NO_KEY = ''

/**
 * Describes the cache with the options `config` to an outer cache. Returns undefined if the request
 * bypasses the cache, except by its `bypass` option. Throws the errors of the callbacks in
 * `config`.
 */
export function innerCache<Native>(
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
  natives: Natives,
  config: CacheConfig<Native>,
): InnerCache | undefined {
  const refused = admit(request, native, config)
  // If the inner `bypass` option refused the request, the outer cache must not store the response.
  // NO_KEY ensures that. For any other reason, the options of the outer cache decide.
  if (refused !== undefined && refused.reason !== 'option') return undefined
  const { rewritten, chosenBy } = request
  return {
    config,
    natives,
    keyOf: (outer) =>
      refused === undefined
        ? cacheKey({ ...outer, rewritten, chosenBy }, native, config, [])
        : NO_KEY,
  }
}

/**
 * The options of the outer cache, but with the inner cache's options about storage and lifetimes.
 */
export function withRulesOf<Native>(
  outer: CacheConfig<Native>,
  { config }: InnerCache,
): CacheConfig<Native> {
  const inner = config as CacheConfig<never>
  return {
    ...outer,
    ttlMs: inner.ttlMs,
    overrideHeaders: inner.overrideHeaders,
    negativeTtlMs: inner.negativeTtlMs,
    statuses: inner.statuses,
    staleWhileRevalidateMs: inner.staleWhileRevalidateMs,
    staleIfErrorMs: inner.staleIfErrorMs,
    keepMs: inner.keepMs,
    jitter: inner.jitter,
    targetedFields: inner.targetedFields,
  }
}
