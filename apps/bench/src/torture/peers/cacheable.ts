// cacheable with memory, Redis through Keyv, and its sync over Redis, in its default blocking mode.
import KeyvRedis, { createClient } from '@keyv/redis'
import { RedisMessageProvider } from '@qified/redis'
import { Cacheable, type CacheableOptions } from 'cacheable'
import type { Instance, Settings } from '../peer.ts'
import { listened, nodeRedisOptions } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const redis = listened(createClient(nodeRedisOptions(settings)))
  // A client that is passed in must be connected first, in particular without an offline queue.
  await redis.connect()
  // Its two clients are private, so no listener can be added for their errors.
  const provider = new RedisMessageProvider({ uri: settings.redisUrl })
  return asInstance(settings, { secondary: new KeyvRedis(redis), sync: { qified: provider } })
}

export async function asInstance(
  { ttlMs, tags, load }: Settings,
  options: CacheableOptions,
): Promise<Instance> {
  const cache = new Cacheable({
    ...options,
    ttl: ttlMs,
    tags: tags.length > 0,
  })
  cache.on('error', () => {})
  return {
    get: (key) =>
      tags.length > 0
        ? tagged(cache, key, () => load(key), tags)
        : cache.getOrSet(key, () => load(key), { throwErrors: true }),
    invalidate: (key) => cache.delete(key),
    invalidateTag: (tag) => cache.tags.invalidateTag(tag),
  }
}

/** Its getOrSet takes no tags. Its documentation sets them this way. */
async function tagged(
  cache: Cacheable,
  key: string,
  load: () => Promise<string>,
  tags: readonly string[],
): Promise<unknown> {
  const known = await cache.get(key)
  if (known !== undefined) return known
  const value = await load()
  await cache.set(key, value, { tags: [...tags] })
  return value
}
