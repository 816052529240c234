// Who is compared, in the order of the columns, and how each was set up.
import type { Peer } from './peer.ts'

const VALUE_ONLY = 'it guards a function and stores its value: the caller writes the response'
const NO_STATUS = 'it sees a value or an error, not a status'
const NO_HEADER = 'it is given the key by its caller, not by a header'

const ofValues = {
  stream: VALUE_ONLY,
  file: VALUE_ONLY,
  cookie: VALUE_ONLY,
  date: VALUE_ONLY,
  unavailable: NO_STATUS,
  limited: NO_STATUS,
}
const ofFunctions = { ...ofValues, quoted: NO_HEADER, 'two-lines': NO_HEADER, malformed: NO_HEADER }

const POWERTOOLS =
  '`makeIdempotent` around a function that returns an API Gateway result, called by an Express handler; ' +
  '`CachePersistenceLayer` on Redis; `eventKeyJmesPath` of user and key; `keyPrefix` a route; ' +
  '`throwOnNoIdempotencyKey`; a context with 1.5 s left, which is what its records in progress are trusted for'

export const peers: readonly Peer[] = [
  {
    id: 'stampede',
    name: '@stampede/express',
    packages: ['@stampede/express', '@stampede/core', '@stampede/redis', 'express', 'ioredis'],
    framework: 'Express',
    setUp:
      '`express.json({ verify: rememberRawBody })` before it; `scope` is the user; `leaseMs: 1_500`; everything else by default',
    leaseMs: 1_500,
    load: () => import('./peers/stampede.ts'),
  },
  {
    id: 'express-idempotency',
    name: 'express-idempotency',
    packages: ['express-idempotency', 'express-idempotency-redis-adapter', 'express', 'redis4'],
    framework: 'Express',
    setUp:
      '`dataAdapter`: its Redis adapter with a client of ours that has an error listener; handlers ask `isHit` and call ' +
      '`reportError` when they throw; no option for users or leases',
    load: () => import('./peers/express-idempotency.ts'),
  },
  {
    id: 'node-idempotency-nest',
    name: '@node-idempotency/nestjs',
    packages: [
      '@node-idempotency/nestjs',
      '@node-idempotency/storage-adapter-redis',
      '@nestjs/core',
      '@nestjs/platform-express',
    ],
    framework: 'Nest on Express',
    setUp:
      '`forRootAsync` with the Redis adapter, `@Idempotent()` on every handler; handlers return what is sent (`StreamableFile`, ' +
      '`@Redirect`, `@HttpCode`); no option for users or leases',
    load: () => import('./peers/node-idempotency-nest.ts'),
  },
  {
    id: 'node-idempotency-core',
    name: '@node-idempotency/core',
    packages: [
      '@node-idempotency/core',
      '@node-idempotency/storage-adapter-redis',
      '@node-idempotency/shared',
      'express',
    ],
    framework: 'called in Express',
    setUp:
      '`onRequest` before the work; `onResponse` after it, awaited before the answer leaves as in its own Nest interceptor, an error ' +
      'stored as `error`; `cacheKeyPrefix` of the request is the ' +
      'user; statuses of its errors by its own table; no option for leases',
    notSupported: ofValues,
    load: () => import('./peers/node-idempotency-core.ts'),
  },
  {
    id: 'powertools',
    name: 'powertools',
    packages: ['@aws-lambda-powertools/idempotency', '@redis/client', 'express'],
    framework: 'called in Express',
    setUp: POWERTOOLS,
    leaseMs: 1_500,
    notSupported: ofFunctions,
    load: () => import('./peers/powertools.ts'),
  },
  {
    id: 'powertools-validated',
    name: 'powertools, payload validation',
    packages: ['@aws-lambda-powertools/idempotency', '@redis/client', 'express'],
    framework: 'called in Express',
    setUp: "the same, and `payloadValidationJmesPath: 'body'`",
    leaseMs: 1_500,
    notSupported: ofFunctions,
    load: () => import('./peers/powertools-validated.ts'),
  },
  {
    id: 'unguarded',
    name: 'no guard (the floor)',
    packages: ['express'],
    framework: 'Express',
    setUp: 'nothing: it shows which rows a plain handler passes',
    load: () => import('./peers/unguarded.ts'),
  },
]

/** Asked for with `npm view` on the day named, and not found in the registry that this project installs from. */
export const absent = {
  asked: '2026-11-21',
  names: [
    '@idempot/express-middleware',
    'hono-idempotency',
    'koa-idempotency',
    '@nestarc/idempotency',
    '@node-idempotency/express',
    '@node-idempotency/fastify',
    'express-idempotency-cache',
    'express-idempotency-middleware',
    'express-idempotent-redis',
    'idempotency-middleware',
  ],
} as const
