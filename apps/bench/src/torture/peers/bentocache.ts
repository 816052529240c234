// bentocache with memory, Redis and its Redis bus, as its multi-tier guide shows.
import {
  BentoCache,
  bentostore,
  memoryDriver,
  Redis,
  redisBusDriver,
  redisDriver,
} from '@stampede/bench-bentocache'
import { DEADLINE_MS, type Instance, type Settings } from '../peer.ts'
import { addressOf, ioredisOptions, listened } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const { redisUrl, ttlMs, staleMs, tags, load } = settings
  const connection = { ...addressOf(redisUrl), ...ioredisOptions(settings) }
  const tiers = bentostore()
    .useL1Layer(memoryDriver({ maxSize: '10mb' }))
    .useL2Layer(redisDriver({ connection: listened(new Redis(connection)) }))
    .useBus(redisBusDriver({ connection: listened(new Redis(connection)) }))
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
}
