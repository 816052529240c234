// async-cache-dedupe on its Redis storage, with references as tags. It has no memory tier before
// Redis.
import { createCache } from 'async-cache-dedupe'
import { Redis } from 'ioredis'
import type { Instance, Settings } from '../peer.ts'
import { ioredisOptions, listened } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const { redisUrl, ttlMs, staleMs, tags, load } = settings
  const client = listened(new Redis(redisUrl, ioredisOptions(settings)))
  const seconds = (ms: number) => Math.ceil(ms / 1_000)
  const cache = createCache({
    ttl: seconds(ttlMs),
    stale: seconds(staleMs),
    onError: () => {},
    storage: {
      type: 'redis',
      options: { client, invalidation: { referencesTTL: seconds(ttlMs + staleMs) } },
    },
  }).define('load', { references: () => [...tags] }, (key: string) => load(key))
  return {
    get: (key) => cache.load(key),
    invalidate: (key) => cache.clear('load', key),
    invalidateTag: (tag) => cache.invalidateAll(tag),
  }
}
