// layered-loader with memory, Redis and its Redis notifications. Groups serve as tags.
import { Redis } from 'ioredis'
import { createNotificationPair, Loader, RedisCache } from 'layered-loader'
import { COMMAND_MS, type Instance, type Settings } from '../peer.ts'
import { openGroups } from './layered-loader-groups.ts'
import { ioredisOptions, listened } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  if (settings.tags.length > 0) return openGroups(settings)
  const { redisUrl, ttlMs, staleMs, client, load } = settings
  const connect = () => listened(new Redis(redisUrl, ioredisOptions(settings)))
  const { publisher, consumer } = createNotificationPair<string>({
    channel: 'notifications',
    consumerRedis: connect(),
    publisherRedis: connect(),
    errorHandler: () => {},
  })
  // It refreshes before the end of the TTL and not after it. The sum of both times is the same.
  const times = {
    ttlInMsecs: ttlMs + staleMs,
    ...(staleMs > 0 && { ttlLeftBeforeRefreshInMsecs: staleMs }),
  }
  const loader = new Loader<string>({
    inMemoryCache: { cacheType: 'lru-map', maxItems: 100, ...times },
    asyncCache: new RedisCache<string>(connect(), {
      json: true,
      ...times,
      ...(client === 'guarded' && { timeoutInMsecs: COMMAND_MS }),
    }),
    notificationConsumer: consumer,
    notificationPublisher: publisher,
    dataSourceGetOneFn: (key: string) => load(key),
    cacheUpdateErrorHandler: () => {},
    loadErrorHandler: () => {},
  })
  await loader.init()
  return {
    get: (key) => loader.get(key),
    invalidate: (key) => loader.invalidateCacheFor(key),
  }
}
