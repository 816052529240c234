// Data caches with only their memory tier, each set up as its documentation says.
import { BentoCache, bentostore, memoryDriver } from '@stampede/bench-bentocache'
import { createStampede } from '@stampede/core'
import { createCache } from 'async-cache-dedupe'
import { Cacheable, createKeyv } from 'cacheable'
import { Loader } from 'layered-loader'
import { LRUCache } from 'lru-cache'
import { type DataPeer, type Get, HOUR_MS, type Load } from './peer.ts'

const MAX_KEYS = 10_000

export const memoryPeers: readonly DataPeer[] = [
  {
    id: 'lru-cache',
    name: 'lru-cache in an async function: no ttl, no coalescing',
    kind: 'floor',
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
    name: 'Stampede, `getOrSet`',
    kind: 'ours',
    packages: ['@stampede/core'],
    create(load) {
      const stampede = createStampede()
      const options = { ttlMs: HOUR_MS }
      return (key) => stampede.getOrSet(key, () => load(key), options)
    },
  },
  {
    id: 'stampede-cache',
    name: 'Stampede, `cache(name, defaults).getOrSet`',
    kind: 'ours',
    packages: ['@stampede/core'],
    create(load) {
      const cache = createStampede().cache('bench', { ttlMs: HOUR_MS })
      return (key) => cache.getOrSet(key, () => load(key))
    },
  },
  {
    id: 'bentocache',
    name: 'bentocache',
    kind: 'peer',
    workspace: 'bentocache',
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
    kind: 'peer',
    packages: ['cacheable'],
    create(load) {
      const cache = new Cacheable({ ttl: HOUR_MS, primary: createKeyv({ useClone: false }) })
      return (key) => cache.getOrSet(key, async () => load(key))
    },
  },
  {
    id: 'async-cache-dedupe',
    name: 'async-cache-dedupe',
    kind: 'peer',
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
    kind: 'peer',
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
  const get = memoryPeers.find((each) => each.id === id)?.create(load, '')
  if (typeof get !== 'function') throw new Error(`no cache in memory named ${id}`)
  return get
}
