// cache-manager with memory and Redis, as its README shows for two layers.
import { createKeyv } from '@keyv/redis'
import { createCache } from 'cache-manager'
import { Keyv } from 'keyv'
import type { Instance, Settings } from '../peer.ts'
import { listened, nodeRedisOptions } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const { ttlMs, staleMs, load } = settings
  const redis = listened(createKeyv(nodeRedisOptions(settings)))
  const cache = createCache({ stores: [new Keyv(), redis] })
  return {
    // A value that is due for a refresh is what other caches call stale.
    get: (key) => cache.wrap(key, () => load(key), ttlMs + staleMs, staleMs),
    invalidate: (key) => cache.del(key),
  }
}
