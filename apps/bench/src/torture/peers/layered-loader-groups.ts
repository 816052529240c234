// GroupLoader of layered-loader: all keys are in one group, which is invalidated in one step.
import { Redis } from 'ioredis'
import { createGroupNotificationPair, GroupLoader, RedisGroupCache } from 'layered-loader'
import { COMMAND_MS, type Instance, type Settings } from '../peer.ts'
import { ioredisOptions, listened } from './redis-options.ts'

export async function openGroups(settings: Settings): Promise<Instance> {
  const { redisUrl, ttlMs, load } = settings
  const [group = ''] = settings.tags
  const connect = () => listened(new Redis(redisUrl, ioredisOptions(settings)))
  const { publisher, consumer } = createGroupNotificationPair<string>({
    channel: 'notifications',
    consumerRedis: connect(),
    publisherRedis: connect(),
    errorHandler: () => {},
  })
  const loader = new GroupLoader<string>({
    inMemoryCache: { ttlInMsecs: ttlMs, maxGroups: 100, maxItemsPerGroup: 100 },
    asyncCache: new RedisGroupCache<string>(connect(), {
      json: true,
      ttlInMsecs: ttlMs,
      timeoutInMsecs: COMMAND_MS,
    }),
    notificationConsumer: consumer,
    notificationPublisher: publisher,
    dataSources: [
      {
        name: 'origin',
        getFromGroup: (key: string) => load(key),
        getManyFromGroup: (keys: string[]) => Promise.all(keys.map(load)),
      },
    ],
    cacheUpdateErrorHandler: () => {},
    loadErrorHandler: () => {},
  })
  await loader.init()
  return {
    get: (key) => loader.get(key, group),
    invalidate: (key) => loader.invalidateCacheFor(key, group),
    invalidateTag: (tag) => loader.invalidateCacheForGroup(tag),
  }
}
