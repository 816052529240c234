// cacheable with memory, Redis through Keyv, and its sync over Redis: the blocking way, which is the default.
import KeyvRedis, { createClient } from '@keyv/redis'
import { RedisMessageProvider } from '@qified/redis'
import { Cacheable, type CacheableOptions } from 'cacheable'
import type { Instance, Settings } from '../peer.ts'
import { listened, nodeRedisOptions } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const redis = listened(createClient(nodeRedisOptions(settings)))
  // A client of one's own is to be connected before it is used, without an offline queue all the more.
  await redis.connect()
  // Its two clients are private, and their errors cannot be listened to.
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

/** Its getOrSet takes no tags: this is how its documentation sets them. */
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
