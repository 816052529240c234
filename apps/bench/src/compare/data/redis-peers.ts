// Data caches with only their Redis tier, each set up as its documentation says.
import { cachified } from '@epic-web/cachified'
import { createClient } from '@redis/client'
import { BentoCache, bentostore, Redis as Redis5, redisDriver } from '@stampede/bench-bentocache'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { createCache } from 'async-cache-dedupe'
import { redisCacheAdapter } from 'cachified-redis-adapter'
import { Redis } from 'ioredis'
import { type DataPeer, HOUR_MS, type Load } from './peer.ts'

export const redisPeers: readonly DataPeer[] = [
  {
    id: 'get-buffer',
    name: 'ioredis, `getBuffer`, else `set`',
    kind: 'floor',
    packages: ['ioredis'],
    create: (load, url) => plain(new Redis(url), load, (bytes) => bytes),
  },
  {
    id: 'get-json',
    name: 'the same, and `JSON.parse`',
    kind: 'floor',
    packages: ['ioredis'],
    create: (load, url) => plain(new Redis(url), load, (bytes) => JSON.parse(bytes.toString())),
  },
  {
    id: 'stampede-bytes',
    name: 'Stampede, `getOrSet`, bytes',
    kind: 'ours',
    packages: ['@stampede/redis', 'ioredis'],
    create: (load, url) => stampede(url, (key) => Buffer.from(JSON.stringify(load(key)))),
  },
  {
    id: 'stampede',
    name: 'Stampede, `getOrSet`, JSON',
    kind: 'ours',
    packages: ['@stampede/redis', 'ioredis'],
    create: (load, url) => stampede(url, load),
  },
  {
    id: 'bentocache',
    name: 'bentocache',
    kind: 'peer',
    packages: ['bentocache', 'ioredis'],
    workspace: 'bentocache',
    create(load, url) {
      const driver = redisDriver({ connection: new Redis5(url) })
      const redis = bentostore().useL2Layer(driver)
      const bento = new BentoCache({ default: 'redis', stores: { redis }, ttl: HOUR_MS })
      return (key) => bento.getOrSet({ key, factory: () => load(key) })
    },
  },
  {
    id: 'async-cache-dedupe',
    name: 'async-cache-dedupe',
    kind: 'peer',
    packages: ['async-cache-dedupe', 'ioredis'],
    create(load, url) {
      const storage = { type: 'redis' as const, options: { client: new Redis(url) } }
      const cache = createCache({ ttl: HOUR_MS / 1_000, storage })
      const loading = cache.define('load', async (key: string) => load(key))
      return (key) => loading.load(key)
    },
  },
  {
    id: 'cachified',
    name: 'cachified',
    kind: 'peer',
    packages: ['@epic-web/cachified', '@redis/client'],
    async create(load, url) {
      const redis = createClient({ url })
      await redis.connect()
      const cache = redisCacheAdapter(redis as never)
      return (key) => cachified({ cache, key, ttl: HOUR_MS, getFreshValue: () => load(key) })
    },
  },
]

const plain =
  (redis: Redis, load: Load, read: (bytes: Buffer) => unknown) =>
  async (key: string): Promise<unknown> => {
    const bytes = await redis.getBuffer(key)
    if (bytes !== null) return read(bytes)
    const made = Buffer.from(JSON.stringify(load(key)))
    await redis.set(key, made, 'PX', HOUR_MS)
    return read(made)
  }

function stampede(url: string, load: Load) {
  const cache = createStampede({ store: redisStore(new Redis(url)), l1: { maxBytes: 0 } })
  const options = { ttlMs: HOUR_MS }
  return (key: string) => cache.getOrSet(key, () => load(key), options)
}
