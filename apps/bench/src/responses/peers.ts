// The compared caches in the order of the columns, with their set-up.
import type { Peer } from './peer.ts'

const MEMORY = 'this set-up has no Redis'

export const peers: readonly Peer[] = [
  {
    id: 'stampede',
    name: '`stampedeCache`, Express',
    packages: ['@stampede/express', '@stampede/core', '@stampede/redis', 'express', 'ioredis'],
    framework: 'Express 5',
    setUp: '`app.use(stampedeCache({ stampede, ttlMs }))` with `redisStore`.',
    load: () => import('./peers/stampede-express.ts'),
  },
  {
    id: 'stampede-koa',
    name: '`stampedeCache`, Koa',
    packages: ['@stampede/koa', '@stampede/core', '@stampede/redis', 'koa', 'ioredis'],
    framework: 'Koa 3',
    setUp: '`app.use(stampedeCache({ stampede, ttlMs }))` with `redisStore`.',
    load: () => import('./peers/stampede-koa.ts'),
  },
  {
    id: 'apicache',
    name: 'apicache',
    packages: ['apicache', 'express4'],
    framework: 'Express 4',
    setUp:
      "`app.use(apicache.middleware('60 seconds'))` with its memory store. Its Redis store needs a client with the callbacks " +
      'and the `connected` property of node-redis 3.',
    notSupported: { 'redis-frozen': MEMORY },
    load: () => import('./peers/apicache.ts'),
  },
  {
    id: 'express-redis-cache',
    name: 'express-redis-cache',
    packages: ['express-redis-cache', 'express4', 'express-redis-cache/node_modules/redis'],
    framework: 'Express 4',
    setUp:
      '`app.get(path, cache.route(), handler)` with `host`, `port` and `expire`, and an error listener.',
    notSupported: { post: 'its README mounts it on `GET` routes only' },
    load: () => import('./peers/express-redis-cache.ts'),
  },
  {
    id: 'koa-cash',
    name: 'koa-cash',
    packages: ['koa-cash', 'lru-cache', 'koa'],
    framework: 'Koa 3',
    setUp:
      '`get` and `set` on lru-cache, and `if (await ctx.cashed()) return` in the handler. A purge calls `ctx.cashClear`.',
    notSupported: { 'redis-frozen': MEMORY },
    load: () => import('./peers/koa-cash.ts'),
  },
]
