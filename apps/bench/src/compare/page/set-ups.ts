// How everybody was set up, in words, with the packages whose versions the page gives.
import type { Peer } from '../../torture/peer.ts'

type SetUp = Pick<Peer, 'name' | 'packages' | 'workspace' | 'setUp'>

export const setUps: readonly SetUp[] = [
  {
    name: 'Stampede',
    packages: ['@stampede/core', '@stampede/express', '@stampede/koa', '@stampede/redis'],
    setUp:
      '`stampedeCache({ ttlMs })` and `getOrSet` with the default options; for the Redis tier `l1: { maxBytes: 0 }`; in fleets `redisStore`, and `originTimeoutMs: 1_000`',
  },
  {
    name: 'Frameworks',
    packages: ['express', 'express4', 'koa', 'ioredis'],
    setUp: 'as they come',
  },
  { name: 'apicache', packages: ['apicache'], setUp: "`middleware('1 hour')`, its memory store" },
  {
    name: 'koa-cash',
    packages: ['koa-cash', 'lru-cache'],
    setUp: 'on an LRU in memory, as its README shows',
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
    setUp: 'as its README advises for speed: `getInMemoryOnly`, and `get` if that has nothing',
  },
  {
    name: 'cachified',
    packages: ['@epic-web/cachified', 'cachified-redis-adapter', '@redis/client'],
    setUp: 'on the Redis adapter that its README names',
  },
  {
    name: 'In fleets',
    packages: ['@keyv/redis', '@qified/redis'],
    setUp:
      'the others as for [torture](torture.md), with every option against a slow Redis that they or their clients have',
  },
]
