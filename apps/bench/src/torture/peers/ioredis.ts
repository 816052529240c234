// Caches on ioredis, each set up as its documentation says, with options against a slow Redis.
import {
  BentoCache,
  bentostore,
  memoryDriver,
  Redis as Redis5,
  redisBusDriver,
  redisDriver,
} from '@stampede/bench-bentocache'
import { createStampede, type GetOrSetOptions } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { createCache } from 'async-cache-dedupe'
import { Redis } from 'ioredis'
import {
  createGroupNotificationPair,
  createNotificationPair,
  GroupLoader,
  Loader,
  RedisCache,
  RedisGroupCache,
} from 'layered-loader'
import {
  composeStorage,
  createBlobStorage,
  createMemoryStorage,
  defineCachedFunction,
} from 'ocache'
import {
  COMMAND_MS,
  DEADLINE_MS,
  type Instance,
  listened,
  type Open,
  type Settings,
} from '../peer.ts'

const guards = ({ client }: Pick<Settings, 'client'>) =>
  client === 'guarded' ? { commandTimeout: COMMAND_MS, maxRetriesPerRequest: 1 } : {}

export const connect = (settings: Pick<Settings, 'client' | 'redisUrl'>): Redis =>
  listened(new Redis(settings.redisUrl, guards(settings)))

const seconds = (ms: number): number => Math.ceil(ms / 1_000)
const ignore = (): void => {}

export const caches: Readonly<Record<string, Open>> = {
  stampede(settings) {
    const { ttlMs, staleMs, tags, load } = settings
    const stampede = createStampede({ store: redisStore(connect(settings)) })
    const options = {
      ttlMs,
      staleWhileRevalidateMs: staleMs,
      originTimeoutMs: DEADLINE_MS,
      ...(tags.length > 0 && { tags: [...tags] }),
    } as GetOrSetOptions
    return {
      get: (key) => stampede.getOrSet(key, () => load(key), options),
      invalidate: (key) => stampede.purge({ key }),
      invalidateTag: (tag) => stampede.purge({ tag }),
    }
  },

  /** With memory, Redis and its Redis bus, as its multi-tier guide shows. */
  bentocache(settings) {
    const { redisUrl, ttlMs, staleMs, tags, load } = settings
    const connection = () => listened(new Redis5(redisUrl, guards(settings)))
    const tiers = bentostore()
      .useL1Layer(memoryDriver({ maxSize: '10mb' }))
      .useL2Layer(redisDriver({ connection: connection() }))
      .useBus(redisBusDriver({ connection: connection() as never }))
    const bento = new BentoCache({
      default: 'tiers',
      stores: { tiers },
      ttl: ttlMs,
      grace: staleMs > 0 && staleMs,
      hardTimeout: DEADLINE_MS,
      ...(settings.client === 'guarded' && { l2CircuitBreakerDuration: '1s' }),
    })
    return {
      get: (key) => bento.getOrSet({ key, factory: () => load(key), tags: [...tags] }),
      invalidate: (key) => bento.delete({ key }),
      invalidateTag: (tag) => bento.deleteByTag({ tags: [tag] }),
    }
  },

  /** On its Redis storage, with references as tags. It has no memory tier before Redis. */
  'async-cache-dedupe'(settings) {
    const { ttlMs, staleMs, tags, load } = settings
    const invalidation = { referencesTTL: seconds(ttlMs + staleMs) }
    const cache = createCache({
      ttl: seconds(ttlMs),
      stale: seconds(staleMs),
      onError: ignore,
      storage: { type: 'redis', options: { client: connect(settings), invalidation } },
    }).define('load', { references: () => [...tags] }, (key: string) => load(key))
    return {
      get: (key) => cache.load(key),
      invalidate: (key) => cache.clear('load', key),
      invalidateTag: (tag) => cache.invalidateAll(tag),
    }
  },

  'layered-loader': (settings) => (settings.tags.length > 0 ? groups : loader)(settings),

  /** A memory layer before a Redis layer, as in its storage guide. It has no bus. */
  ocache(settings) {
    const { ttlMs, staleMs, load } = settings
    const redis = connect(settings)
    const blobs = createBlobStorage({
      get: (key) => redis.getBuffer(key),
      set: async (key, value, opts) => {
        if (value === null) await redis.del(key)
        else if (opts?.ttl)
          await redis.set(key, Buffer.from(value), 'PX', Math.ceil(opts.ttl * 1e3))
        else await redis.set(key, Buffer.from(value))
      },
    })
    const memory = { storage: createMemoryStorage(), ttl: 60 }
    const get = defineCachedFunction((key: string) => load(key), {
      name: 'load',
      getKey: (key) => key,
      maxAge: ttlMs / 1_000,
      swr: staleMs > 0,
      staleMaxAge: staleMs / 1_000,
      maxResolveTime: DEADLINE_MS / 1_000,
      storage: composeStorage([memory, blobs], { onError: ignore }),
      onError: ignore,
    })
    return { get: async (key) => get(key), invalidate: (key) => get.invalidate(key) }
  },
}

/** layered-loader with memory, Redis and its Redis notifications. */
async function loader(settings: Settings): Promise<Instance> {
  const { ttlMs, staleMs, client, load } = settings
  // It refreshes before the end of the TTL and not after it. The sum of both times is the same.
  const times = {
    ttlInMsecs: ttlMs + staleMs,
    ...(staleMs > 0 && { ttlLeftBeforeRefreshInMsecs: staleMs }),
  }
  const { publisher, consumer } = createNotificationPair<string>(bus(settings))
  const cache = new Loader<string>({
    inMemoryCache: { cacheType: 'lru-map', maxItems: 100, ...times },
    asyncCache: new RedisCache<string>(connect(settings), {
      json: true,
      ...times,
      ...(client === 'guarded' && { timeoutInMsecs: COMMAND_MS }),
    }),
    notificationConsumer: consumer,
    notificationPublisher: publisher,
    dataSourceGetOneFn: (key: string) => load(key),
    cacheUpdateErrorHandler: ignore,
    loadErrorHandler: ignore,
  })
  await cache.init()
  return { get: (key) => cache.get(key), invalidate: (key) => cache.invalidateCacheFor(key) }
}

/** Its GroupLoader. All keys are in one group, which serves as the tag. */
async function groups(settings: Settings): Promise<Instance> {
  const { ttlMs, load } = settings
  const [group = ''] = settings.tags
  const { publisher, consumer } = createGroupNotificationPair<string>(bus(settings))
  const options = { json: true, ttlInMsecs: ttlMs, timeoutInMsecs: COMMAND_MS } as const
  const source = {
    name: 'origin',
    getFromGroup: (key: string) => load(key),
    getManyFromGroup: (keys: string[]) => Promise.all(keys.map(load)),
  }
  const cache = new GroupLoader<string>({
    inMemoryCache: { ttlInMsecs: ttlMs, maxGroups: 100, maxItemsPerGroup: 100 },
    asyncCache: new RedisGroupCache<string>(connect(settings), options),
    notificationConsumer: consumer,
    notificationPublisher: publisher,
    dataSources: [source],
    cacheUpdateErrorHandler: ignore,
    loadErrorHandler: ignore,
  })
  await cache.init()
  return {
    get: (key) => cache.get(key, group),
    invalidate: (key) => cache.invalidateCacheFor(key, group),
    invalidateTag: (tag) => cache.invalidateCacheForGroup(tag),
  }
}

const bus = (settings: Settings) => ({
  channel: 'notifications',
  consumerRedis: connect(settings),
  publisherRedis: connect(settings),
  errorHandler: ignore,
})
