// Two caches on the way of one request. They would wait for each other under one key, so the inner
// cache lets the request pass, and the outer one stores by its rules. If the inner cache has another
// key, it stores the response, and the outer one keeps nothing (docs/decisions/0022).

import type { Exchange, InnerCache, Natives } from '../ports/exchange.ts'
import { admit } from './admit.ts'
import type { CacheConfig } from './cache-config.ts'
import { cacheKey } from './key.ts'
import type { NotStorable } from './storable.ts'

export const LEFT_TO_INNER: NotStorable = { store: false, reason: 'inner-cache', failure: false }

/** That of no cache. */
const NO_KEY = ''

/** The cache of `config`, as another one further out meets it. Undefined: it takes no part. Throws what its callbacks throw. */
export function innerCache<Native>(
  { request, native }: Pick<Exchange<Native>, 'request' | 'native'>,
  natives: Natives,
  config: CacheConfig<Native>,
): InnerCache | undefined {
  const refused = admit(request, native, config)
  // The outer one was told that these may be shared; nobody told it of `bypass`.
  if (refused !== undefined && refused.reason !== 'option') return undefined
  const { rewritten } = request
  return {
    config,
    natives,
    keyOf: (outer) =>
      refused === undefined ? cacheKey({ ...outer, rewritten }, native, config, []) : NO_KEY,
  }
}

/** How long a response is kept, as the inner cache has it; everything else as the outer one has it. */
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
