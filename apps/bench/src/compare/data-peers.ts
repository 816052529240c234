// Data caches, and floors that they are compared with: with only memory, or with only Redis. Each
// is set up as its documentation says.
import { cachified } from '@epic-web/cachified'
import { createClient } from '@redis/client'
import {
  BentoCache,
  bentostore,
  memoryDriver,
  Redis as Redis5,
  redisDriver,
} from '@stampede/bench-bentocache'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { createCache } from 'async-cache-dedupe'
import { Cacheable, createKeyv } from 'cacheable'
import { redisCacheAdapter } from 'cachified-redis-adapter'
import { Redis } from 'ioredis'
import { Loader } from 'layered-loader'
import { LRUCache } from 'lru-cache'
import type { RowSpec } from '../lib/rows.ts'

/** The origin. The caller counts its calls. */
export type Load = (key: string) => object
export type Get = (key: string) => Promise<unknown>

export interface DataPeer extends RowSpec {
  readonly create: (load: Load, redisUrl: string) => Get | Promise<Get>
}

const ttlMs = 3_600_000
const MAX_KEYS = 10_000

const bentocache = (store: ReturnType<typeof bentostore>, load: Load): Get => {
  const bento = new BentoCache({ default: 'one', stores: { one: store }, ttl: ttlMs })
  return (key) => bento.getOrSet({ key, factory: () => load(key) })
}

const asyncCacheDedupe = (storage: object, load: Load): Get => {
  const cache = createCache({ ttl: ttlMs / 1_000, storage: storage as never })
  const loading = cache.define('load', async (key: string) => load(key))
  return (key) => loading.load(key)
}

export const memoryPeers: readonly DataPeer[] = [
  {
    ...{ id: 'lru-cache', kind: 'floor' },
    name: 'lru-cache in an async function: no ttl, no coalescing',
    create(load) {
      const cache = new LRUCache<string, object>({ max: MAX_KEYS })
      return async (key) => {
        const known = cache.get(key)
        if (known !== undefined) return known
        const value = load(key)
        cache.set(key, value)
        return value
      }
    },
  },
  {
    ...{ id: 'stampede', name: 'Stampede, `getOrSet`', kind: 'ours' },
    create(load) {
      const stampede = createStampede()
      const options = { ttlMs }
      return (key) => stampede.getOrSet(key, () => load(key), options)
    },
  },
  {
    ...{ id: 'stampede-cache', name: 'Stampede, `cache(name, defaults).getOrSet`', kind: 'ours' },
    create(load) {
      const cache = createStampede().cache('bench', { ttlMs })
      return (key) => cache.getOrSet(key, () => load(key))
    },
  },
  {
    ...{ id: 'bentocache', name: 'bentocache', kind: 'peer' },
    create(load) {
      const driver = memoryDriver({ maxItems: MAX_KEYS, serialize: false })
      return bentocache(bentostore().useL1Layer(driver), load)
    },
  },
  {
    ...{ id: 'cacheable', name: 'cacheable', kind: 'peer' },
    create(load) {
      const cache = new Cacheable({ ttl: ttlMs, primary: createKeyv({ useClone: false }) })
      return (key) => cache.getOrSet(key, async () => load(key))
    },
  },
  {
    ...{ id: 'async-cache-dedupe', name: 'async-cache-dedupe', kind: 'peer' },
    create: (load) => asyncCacheDedupe({ type: 'memory', options: { size: MAX_KEYS } }, load),
  },
  {
    ...{ id: 'layered-loader', name: 'layered-loader', kind: 'peer' },
    create(load) {
      const loader = new Loader<object>({
        inMemoryCache: { cacheType: 'lru-map', ttlInMsecs: ttlMs, maxItems: MAX_KEYS },
        dataSourceGetOneFn: async (key: string) => load(key),
      })
      return async (key) => loader.getInMemoryOnly(key) ?? loader.get(key)
    },
  },
]

export function memoryGet(id: string, load: Load): Get {
  const get = memoryPeers.find((each) => each.id === id)?.create(load, '')
  if (typeof get !== 'function') throw new Error(`no cache in memory named ${id}`)
  return get
}

/** Bare commands: they read a key, and set it if it is missing. */
const plain =
  (read: (bytes: Buffer) => unknown) =>
  (load: Load, url: string): Get => {
    const redis = new Redis(url)
    return async (key) => {
      const bytes = await redis.getBuffer(key)
      if (bytes !== null) return read(bytes)
      const made = Buffer.from(JSON.stringify(load(key)))
      await redis.set(key, made, 'PX', ttlMs)
      return read(made)
    }
  }

const stampede =
  (made: (load: Load) => Load) =>
  (load: Load, url: string): Get => {
    const cache = createStampede({ store: redisStore(new Redis(url)), l1: { maxBytes: 0 } })
    const options = { ttlMs }
    const loading = made(load)
    return (key) => cache.getOrSet(key, () => loading(key), options)
  }

export const redisPeers: readonly DataPeer[] = [
  {
    ...{ id: 'get-buffer', name: 'ioredis, `getBuffer`, else `set`', kind: 'floor' },
    create: plain((bytes) => bytes),
  },
  {
    ...{ id: 'get-json', name: 'the same, and `JSON.parse`', kind: 'floor' },
    create: plain((bytes) => JSON.parse(bytes.toString())),
  },
  {
    ...{ id: 'stampede-bytes', name: 'Stampede, `getOrSet`, bytes', kind: 'ours' },
    create: stampede((load) => (key) => Buffer.from(JSON.stringify(load(key)))),
  },
  {
    ...{ id: 'stampede', name: 'Stampede, `getOrSet`, JSON', kind: 'ours' },
    create: stampede((load) => load),
  },
  {
    ...{ id: 'bentocache', name: 'bentocache', kind: 'peer' },
    create(load, url) {
      const driver = redisDriver({ connection: new Redis5(url) })
      return bentocache(bentostore().useL2Layer(driver) as never, load)
    },
  },
  {
    ...{ id: 'async-cache-dedupe', name: 'async-cache-dedupe', kind: 'peer' },
    create: (load, url) =>
      asyncCacheDedupe({ type: 'redis', options: { client: new Redis(url) } }, load),
  },
  {
    ...{ id: 'cachified', name: 'cachified', kind: 'peer' },
    async create(load, url) {
      const redis = createClient({ url })
      await redis.connect()
      const cache = redisCacheAdapter(redis as never)
      return (key) => cachified({ cache, key, ttl: ttlMs, getFreshValue: () => load(key) })
    },
  },
]
