// Caches on node-redis, each set up as its documentation says, with options against a slow Redis.
import { cachified } from '@epic-web/cachified'
import KeyvRedis, { createClient, createKeyv, createKeyvNonBlocking } from '@keyv/redis'
import { RedisMessageProvider } from '@qified/redis'
import { createClient as createNodeRedis } from '@redis/client'
import { createCache } from 'cache-manager'
import { Cacheable, type CacheableOptions } from 'cacheable'
import { redisCacheAdapter } from 'cachified-redis-adapter'
import { Keyv } from 'keyv'
import { COMMAND_MS, type Instance, listened, type Open, type Settings } from '../peer.ts'

/** Its command timeout ends when the command is written, so the socket needs a timeout as well. */
const guards = ({ client, redisUrl: url }: Settings) =>
  client === 'guarded'
    ? {
        url,
        disableOfflineQueue: true,
        commandOptions: { timeout: COMMAND_MS },
        socket: { socketTimeout: COMMAND_MS },
        pingInterval: 200,
      }
    : { url }

export const caches: Readonly<Record<string, Open>> = {
  /** With memory, Redis through Keyv, and its sync over Redis, in its default blocking mode. */
  async cacheable(settings) {
    const redis = listened(createClient(guards(settings)))
    // A client that is passed in must be connected first, in particular without an offline queue.
    await redis.connect()
    // Its two clients are private, so no listener can be added for their errors.
    const qified = new RedisMessageProvider({ uri: settings.redisUrl })
    return cacheable(settings, { secondary: new KeyvRedis(redis), sync: { qified } })
  },

  /** Set up as it advises against a Redis that hangs: no call waits for Redis. */
  'cacheable-non-blocking'(settings) {
    const secondary = listened(createKeyvNonBlocking(guards(settings)))
    return cacheable(settings, { secondary, nonBlocking: true })
  },

  /** With memory and Redis, as its README shows for two layers. */
  'cache-manager'(settings) {
    const { ttlMs, staleMs, load } = settings
    const cache = createCache({ stores: [new Keyv(), listened(createKeyv(guards(settings)))] })
    return {
      // A value that is due for a refresh is what other caches call stale.
      get: (key) => cache.wrap(key, () => load(key), ttlMs + staleMs, staleMs),
      invalidate: (key) => cache.del(key),
    }
  },

  /** On the Redis adapter of its README. Each call has one cache, so there is no memory tier. */
  async cachified(settings) {
    const { ttlMs: ttl, staleMs: staleWhileRevalidate, load } = settings
    const redis = listened(createNodeRedis(guards(settings)))
    await redis.connect()
    const cache = redisCacheAdapter(redis as never)
    return {
      get: (key) =>
        cachified({ cache, key, ttl, staleWhileRevalidate, getFreshValue: () => load(key) }),
      invalidate: async (key) => cache.delete(key),
    }
  },
}

function cacheable({ ttlMs, tags, load }: Settings, options: CacheableOptions): Instance {
  const cache = listened(new Cacheable({ ...options, ttl: ttlMs, tags: tags.length > 0 }))
  /** Its getOrSet takes no tags. Its documentation sets them this way. */
  const tagged = async (key: string): Promise<unknown> => {
    const known = await cache.get(key)
    if (known !== undefined) return known
    const value = await load(key)
    await cache.set(key, value, { tags: [...tags] })
    return value
  }
  return {
    get: (key) =>
      tags.length > 0 ? tagged(key) : cache.getOrSet(key, () => load(key), { throwErrors: true }),
    invalidate: (key) => cache.delete(key),
    invalidateTag: (tag) => cache.tags.invalidateTag(tag),
  }
}
