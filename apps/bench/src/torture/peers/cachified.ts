// @epic-web/cachified on the Redis adapter of its README. Each call has one cache, so no memory
// tier.
import { cachified } from '@epic-web/cachified'
import { createClient } from '@redis/client'
import { redisCacheAdapter } from 'cachified-redis-adapter'
import type { Instance, Settings } from '../peer.ts'
import { listened, nodeRedisOptions } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const { ttlMs, staleMs, load } = settings
  const redis = listened(createClient(nodeRedisOptions(settings)))
  await redis.connect()
  const cache = redisCacheAdapter(redis as never)
  return {
    get: (key) =>
      cachified({
        cache,
        key,
        ttl: ttlMs,
        staleWhileRevalidate: staleMs,
        getFreshValue: () => load(key),
      }),
    invalidate: async (key) => cache.delete(key),
  }
}
