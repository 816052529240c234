// Rules for two caches that one request passes. With the same key they would wait for each other.
// So the inner cache lets the request pass, and the outer one stores by the inner one's rules. With
// another key, the inner cache stores the response, and the outer one does not
// (docs/decisions/0022).

import type { Exchange, InnerCache, Natives } from '../ports/exchange.ts'
import { admit } from './admit.ts'
import type { CacheConfig } from './cache-config.ts'
import { cacheKey } from './key.ts'
import type { NotStorable } from './storable.ts'

export const LEFT_TO_INNER: NotStorable = { store: false, reason: 'inner-cache', failure: false }

/** A key that no cache has. */
const NO_KEY = ''

/**
 * Describes the cache of `config` to an outer cache. Returns undefined if the request bypasses this
 * cache. Throws the errors of its callbacks.
 */
export function innerCache<Native>(
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
  natives: Natives,
  config: CacheConfig<Native>,
): InnerCache | undefined {
  const refused = admit(request, native, config)
  // For other reasons, the options of the outer cache decide. They do not replace the inner
  // `bypass`: the key that never matches makes the outer cache not store the response.
  if (refused !== undefined && refused.reason !== 'option') return undefined
  const { rewritten } = request
  return {
    config,
    natives,
    keyOf: (outer) =>
      refused === undefined ? cacheKey({ ...outer, rewritten }, native, config, []) : NO_KEY,
  }
}

/**
 * The options of the outer cache, except those about storage and lifetimes: they are the inner's.
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
