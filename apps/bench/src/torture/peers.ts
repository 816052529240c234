// The compared caches in the order of the columns, with their set-up.
import type { Peer } from './peer.ts'

const IOREDIS =
  'Options of ioredis: `commandTimeout: 500`, `maxRetriesPerRequest: 1`; T7 and T8 also without them.'
const NODE_REDIS =
  'Options of its Redis client: `disableOfflineQueue`, `commandOptions.timeout: 500`, `socketTimeout: 500` and ' +
  '`pingInterval: 200`; T7 and T8 also without them.'
const NO_TAGS = 'It has no tags.'
const NO_BUS = 'It has no bus, so a copy in memory stays until its TTL ends.'
const SYNC_LEFT_OUT = 'This set-up has no bus. See the column before.'
const NO_MEMORY = 'It has no memory tier. Every call asks Redis.'
const NO_STALE = 'It serves no stale values.'

export const peers: readonly Peer[] = [
  {
    id: 'stampede',
    name: 'Stampede',
    packages: ['@stampede/core', '@stampede/redis', 'ioredis'],
    setUp: '`getOrSet` and `purge` on `redisStore(client)`, with `originTimeoutMs: 1_000`.',
    load: () => import('./peers/stampede.ts'),
  },
  {
    id: 'bentocache',
    name: 'bentocache',
    packages: ['bentocache', '@boringnode/bus', 'ioredis'],
    workspace: 'bentocache',
    setUp:
      'Memory, Redis and Redis bus as in its multi-tier guide, with `hardTimeout: 1_000` and ' +
      `\`l2CircuitBreakerDuration: '1s'\`; \`grace\` in scenarios with stale values. ${IOREDIS}`,
    load: () => import('./peers/bentocache.ts'),
  },
  {
    id: 'cacheable',
    name: 'cacheable',
    packages: ['cacheable', '@keyv/redis', '@qified/redis'],
    setUp:
      'Memory, `KeyvRedis` as secondary, and `sync` by `RedisMessageProvider`. The clients of that provider are private, so no ' +
      'listener can be added for their errors. `getOrSet` with `throwErrors: true`: without it, a failure of the origin ' +
      `is an undefined value. Tags by \`get\` and \`set\`, because \`getOrSet\` takes none. ${NODE_REDIS}`,
    notSupported: { T9: NO_STALE },
    load: () => import('./peers/cacheable.ts'),
  },
  {
    id: 'cacheable-non-blocking',
    name: 'cacheable, non-blocking',
    packages: ['cacheable', '@keyv/redis'],
    setUp:
      '`nonBlocking: true` and `createKeyvNonBlocking`, as its README advises against a Redis that hangs; no `sync`. `getOrSet`, ' +
      'tags and client options as in the column before.',
    notSupported: { T6: SYNC_LEFT_OUT, T9: NO_STALE },
    load: () => import('./peers/cacheable-non-blocking.ts'),
  },
  {
    id: 'cache-manager',
    name: 'cache-manager',
    packages: ['cache-manager', 'keyv', '@keyv/redis'],
    setUp:
      '`wrap` on a `Keyv` in memory and one in Redis, as its README shows; `refreshThreshold` in scenarios with stale values. ' +
      NODE_REDIS,
    notSupported: { T2: NO_TAGS, T6: NO_BUS },
    load: () => import('./peers/cache-manager.ts'),
  },
  {
    id: 'cachified',
    name: 'cachified',
    packages: ['@epic-web/cachified', 'cachified-redis-adapter', '@redis/client'],
    setUp: `\`cachified\` on the Redis adapter that its README names, without a memory tier. A purge deletes the key. ${NODE_REDIS}`,
    notSupported: { T2: NO_TAGS, T6: NO_MEMORY },
    load: () => import('./peers/cachified.ts'),
  },
  {
    id: 'async-cache-dedupe',
    name: 'async-cache-dedupe',
    packages: ['async-cache-dedupe', 'ioredis'],
    setUp: `Redis storage with \`invalidation\`; it has memory or Redis, not both. References serve as tags. ${IOREDIS}`,
    notSupported: { T6: NO_MEMORY },
    load: () => import('./peers/async-cache-dedupe.ts'),
  },
  {
    id: 'layered-loader',
    name: 'layered-loader',
    packages: ['layered-loader', 'ioredis'],
    setUp:
      '`Loader` with memory, `RedisCache` with `timeoutInMsecs: 500`, and Redis notifications; a `GroupLoader` in the scenario ' +
      `with tags. ${IOREDIS} It requires Node 22 or newer.`,
    load: () => import('./peers/layered-loader.ts'),
  },
  {
    id: 'ocache',
    name: 'ocache',
    packages: ['ocache', 'ioredis'],
    setUp:
      '`composeStorage` of memory (`ttl: 60`) and Redis (`createBlobStorage`), with `maxResolveTime: 1`; `swr` in scenarios with ' +
      `stale values. ${IOREDIS}`,
    notSupported: { T2: NO_TAGS, T6: NO_BUS },
    load: () => import('./peers/ocache.ts'),
  },
]
