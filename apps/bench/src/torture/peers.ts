// Who is compared, in the order of the columns, and how each was set up.
import type { Peer } from './peer.ts'

const IOREDIS =
  'on ioredis `commandTimeout: 500`, `maxRetriesPerRequest: 1` (T7 and T8 also without)'
const NODE_REDIS =
  'its Redis client with `disableOfflineQueue`, `commandOptions.timeout: 500`, `socketTimeout: 500` and `pingInterval: 200` (T7 ' +
  'and T8 also without)'
const NO_TAGS = 'it has no tags'
const NO_BUS = 'it has no bus: a memory tier is as old as its ttl allows'
const SYNC_LEFT_OUT = 'set up without its bus, see the column before'
const NO_MEMORY = 'it has no memory tier: every call asks Redis'
const NO_STALE = 'it serves nothing past its ttl'

export const peers: readonly Peer[] = [
  {
    id: 'stampede',
    name: 'Stampede',
    packages: ['@stampede/core', '@stampede/redis', 'ioredis'],
    setUp: '`getOrSet` and `purge` on `redisStore(client)`; `originTimeoutMs: 1_000`',
    load: () => import('./peers/stampede.ts'),
  },
  {
    id: 'bentocache',
    name: 'bentocache',
    packages: ['bentocache', '@boringnode/bus', 'ioredis'],
    workspace: 'bentocache',
    setUp:
      'memory, Redis and Redis bus as in its multi-tier guide; `grace` where values may be stale, `hardTimeout: 1_000`, ' +
      `\`l2CircuitBreakerDuration: '1s'\`; ${IOREDIS}`,
    load: () => import('./peers/bentocache.ts'),
  },
  {
    id: 'cacheable',
    name: 'cacheable',
    packages: ['cacheable', '@keyv/redis', '@qified/redis'],
    setUp:
      'memory, `KeyvRedis` as secondary, `sync` by `RedisMessageProvider` (whose clients are private: nobody can listen to their errors); `getOrSet` with `throwErrors: true`, without which a ' +
      `failure of the origin is an undefined value; tags by \`get\` and \`set\`, as its \`getOrSet\` takes none; ${NODE_REDIS}`,
    leaves: { T9: NO_STALE },
    load: () => import('./peers/cacheable.ts'),
  },
  {
    id: 'cacheable-non-blocking',
    name: 'cacheable, non-blocking',
    packages: ['cacheable', '@keyv/redis'],
    setUp:
      'as its README advises against a Redis that hangs: `nonBlocking: true` and `createKeyvNonBlocking`, without `sync`; `getOrSet`, ' +
      'tags and client options as before',
    leaves: { T6: SYNC_LEFT_OUT, T9: NO_STALE },
    load: () => import('./peers/cacheable-non-blocking.ts'),
  },
  {
    id: 'cachified',
    name: 'cachified',
    packages: ['@epic-web/cachified', 'cachified-redis-adapter', '@redis/client'],
    setUp: `\`cachified\` on the Redis adapter that its README names, no memory tier; a purge deletes the key; ${NODE_REDIS}`,
    leaves: { T2: NO_TAGS, T6: NO_MEMORY },
    load: () => import('./peers/cachified.ts'),
  },
  {
    id: 'async-cache-dedupe',
    name: 'async-cache-dedupe',
    packages: ['async-cache-dedupe', 'ioredis'],
    setUp: `Redis storage (it has memory or Redis, not both) with \`invalidation\`, references as tags; ${IOREDIS}`,
    leaves: { T6: NO_MEMORY },
    load: () => import('./peers/async-cache-dedupe.ts'),
  },
  {
    id: 'layered-loader',
    name: 'layered-loader',
    packages: ['layered-loader', 'ioredis'],
    setUp:
      '`Loader` with memory, `RedisCache` with `timeoutInMsecs: 500` and Redis notifications; a `GroupLoader` where tags are asked ' +
      `for; ${IOREDIS}; it asks for Node 22 or newer`,
    load: () => import('./peers/layered-loader.ts'),
  },
  {
    id: 'ocache',
    name: 'ocache',
    packages: ['ocache', 'ioredis'],
    setUp:
      '`composeStorage` of memory (`ttl: 60`) and Redis (`createBlobStorage`); `swr` where values may be stale, `maxResolveTime: 1`; ' +
      IOREDIS,
    leaves: { T2: NO_TAGS, T6: NO_BUS },
    load: () => import('./peers/ocache.ts'),
  },
]
