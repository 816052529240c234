// ocache with a memory layer before a Redis layer, as in its storage guide. It has no bus.
import { Redis } from 'ioredis'
import {
  composeStorage,
  createBlobStorage,
  createMemoryStorage,
  defineCachedFunction,
} from 'ocache'
import { DEADLINE_MS, type Instance, type Settings } from '../peer.ts'
import { ioredisOptions, listened } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const { redisUrl, ttlMs, staleMs, load } = settings
  const redis = listened(new Redis(redisUrl, ioredisOptions(settings)))
  const blobs = createBlobStorage({
    get: (key) => redis.getBuffer(key),
    set: async (key, value, opts) => {
      if (value === null) await redis.del(key)
      else if (opts?.ttl)
        await redis.set(key, Buffer.from(value), 'PX', Math.ceil(opts.ttl * 1_000))
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
    storage: composeStorage([memory, blobs], { onError: () => {} }),
    onError: () => {},
  })
  return { get: async (key) => get(key), invalidate: (key) => get.invalidate(key) }
}
