// Caches for data with their memory tier alone, each set up as its documentation says.
import { BentoCache, bentostore, memoryDriver } from '@stampede/bench-bentocache'
import { createStampede } from '@stampede/core'
import { createCache } from 'async-cache-dedupe'
import { Cacheable, createKeyv } from 'cacheable'
import { Loader } from 'layered-loader'
import { LRUCache } from 'lru-cache'

/** Gets the value of a key, from memory or from `load`. */
export type Get = (key: string) => Promise<unknown>
export type Load = (key: string) => object

export interface MemoryPeer {
  readonly id: string
  readonly name: string
  readonly packages: readonly string[]
  readonly create: (load: Load) => Get
}

const HOUR_MS = 3_600_000
const MAX_KEYS = 2_000_000

export const memoryPeers: readonly MemoryPeer[] = [
  {
    id: 'lru-cache',
    name: 'lru-cache in an async function: no coalescing, no ttl, nothing shared (the floor)',
    packages: ['lru-cache'],
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
    id: 'stampede',
    name: 'Stampede `getOrSet`',
    packages: ['@stampede/core'],
    create(load) {
      const stampede = createStampede({ l1: { maxEntries: MAX_KEYS, maxBytes: 2 ** 33 } })
      const options = { ttlMs: HOUR_MS }
      return (key) => stampede.getOrSet(key, () => load(key), options)
    },
  },
  {
    id: 'bentocache',
    name: 'bentocache',
    packages: ['bentocache'],
    create(load) {
      const memory = bentostore().useL1Layer(memoryDriver({ maxItems: MAX_KEYS, serialize: false }))
      const bento = new BentoCache({ default: 'memory', stores: { memory }, ttl: HOUR_MS })
      return (key) => bento.getOrSet({ key, factory: () => load(key) })
    },
  },
  {
    id: 'cacheable',
    name: 'cacheable',
    packages: ['cacheable'],
    create(load) {
      const cache = new Cacheable({ ttl: HOUR_MS, primary: createKeyv({ useClone: false }) })
      return (key) => cache.getOrSet(key, async () => load(key))
    },
  },
  {
    id: 'async-cache-dedupe',
    name: 'async-cache-dedupe',
    packages: ['async-cache-dedupe'],
    create(load) {
      const storage = { type: 'memory' as const, options: { size: MAX_KEYS } }
      const cache = createCache({ ttl: HOUR_MS / 1_000, storage })
      const loading = cache.define('load', async (key: string) => load(key))
      return (key) => loading.load(key)
    },
  },
  {
    id: 'layered-loader',
    name: 'layered-loader',
    packages: ['layered-loader'],
    create(load) {
      const loader = new Loader<object>({
        inMemoryCache: { cacheType: 'lru-map', ttlInMsecs: HOUR_MS, maxItems: MAX_KEYS },
        dataSourceGetOneFn: async (key: string) => load(key),
      })
      return async (key) => loader.getInMemoryOnly(key) ?? loader.get(key)
    },
  },
]

export function memoryGet(id: string, load: Load): Get {
  const peer = memoryPeers.find((each) => each.id === id)
  if (peer === undefined) throw new Error(`no cache named ${id}`)
  return peer.create(load)
}
