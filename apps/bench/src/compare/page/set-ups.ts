// How each cache was set up, with the packages whose versions the page names.
import type { Peer } from '../../torture/peer.ts'

type SetUp = Pick<Peer, 'name' | 'packages' | 'workspace' | 'setUp'>

export const setUps: readonly SetUp[] = [
  {
    name: 'Stampede',
    packages: ['@stampede/core', '@stampede/express', '@stampede/koa', '@stampede/redis'],
    setUp:
      '`stampedeCache({ ttlMs })` and `getOrSet` with the default options; `l1: { maxBytes: 0 }` for the Redis tier; `redisStore` and `originTimeoutMs: 1_000` in fleets',
  },
  {
    name: 'Frameworks',
    packages: ['express', 'express4', 'koa', 'ioredis'],
    setUp: 'default settings',
  },
  { name: 'apicache', packages: ['apicache'], setUp: "`middleware('1 hour')`, its memory store" },
  {
    name: 'koa-cash',
    packages: ['koa-cash', 'lru-cache'],
    setUp: 'an LRU in memory, as its README shows',
  },
  {
    name: 'bentocache',
    packages: ['bentocache'],
    workspace: 'bentocache',
    setUp: 'its memory driver with `serialize: false`, or its Redis driver alone',
  },
  {
    name: 'cacheable',
    packages: ['cacheable'],
    setUp: '`getOrSet` on its memory store with `useClone: false`',
  },
  {
    name: 'async-cache-dedupe',
    packages: ['async-cache-dedupe'],
    setUp: 'its memory storage, or its Redis storage without invalidation',
  },
  {
    name: 'layered-loader',
    packages: ['layered-loader'],
    setUp: '`getInMemoryOnly` first, and `get` on a miss, as its README advises for speed',
  },
  {
    name: 'cachified',
    packages: ['@epic-web/cachified', 'cachified-redis-adapter', '@redis/client'],
    setUp: 'the Redis adapter that its README names',
  },
  {
    name: 'In fleets',
    packages: ['@keyv/redis', '@qified/redis'],
    setUp:
      'the other caches are set up as for [Torture](torture.md), with every option against a slow Redis that the cache or its client has',
  },
]
