// Rules for a request that passes two caches: an outer one, and an inner one nearer to the handler.
// If their keys are equal, both would wait for the same fill. So the inner cache forwards the
// request, and the outer cache stores the response with the options of the inner one. If their keys
// differ, only the inner cache stores it (docs/decisions/0022).

import type { Exchange, InnerCache, Natives } from '../ports/exchange.ts'
import { admit } from './admit.ts'
import type { CacheConfig } from './cache-options.ts'
import { cacheKey } from './key.ts'

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
  const keyOf: InnerCache['keyOf'] = (outer) =>
    refused ? NO_KEY : cacheKey({ ...outer, rewritten, chosenBy }, native, config, [])
  return { config, natives, keyOf }
}
