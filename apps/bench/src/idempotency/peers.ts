// The compared libraries in the order of the columns, with their set-up.
import type { Peer } from './peer.ts'

const VALUE_ONLY = 'it guards a function and stores its value; the caller writes the response'
const NO_STATUS = 'it sees a value or an error, not a status'
const NO_HEADER = 'its caller passes the key, not a header'

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
  '`makeIdempotent` around a function that returns an API Gateway result, called by an Express handler. ' +
  '`CachePersistenceLayer` on Redis; `eventKeyJmesPath` of user and key; one `keyPrefix` per route; ' +
  '`throwOnNoIdempotencyKey`. Its context has 1.5 s left, which is how long a record in progress is trusted.'

export const peers: readonly Peer[] = [
  {
    id: 'stampede',
    name: '@stampede/express',
    packages: ['@stampede/express', '@stampede/core', '@stampede/redis', 'express', 'ioredis'],
    framework: 'Express',
    setUp:
      '`express.json({ verify: rememberRawBody })` before it; `scope` is the user; `leaseMs: 1_500`; defaults for the rest.',
    leaseMs: 1_500,
    load: () => import('./peers/stampede.ts'),
  },
  {
    id: 'express-idempotency',
    name: 'express-idempotency',
    packages: ['express-idempotency', 'express-idempotency-redis-adapter', 'express', 'redis4'],
    framework: 'Express',
    setUp:
      '`dataAdapter` is its Redis adapter, with a client that has an error listener. Handlers call `isHit`, and `reportError` when ' +
      'they throw. It has no option for users or leases.',
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
      '`forRootAsync` with the Redis adapter, and `@Idempotent()` on every handler. Handlers return the response ' +
      '(`StreamableFile`, `@Redirect`, `@HttpCode`). It has no option for users or leases.',
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
    framework: 'Express; the handler calls the library',
    setUp:
      '`onRequest` before the work and `onResponse` after it, awaited before the response is sent, as its own Nest interceptor ' +
      'does. An error is stored as `error`. `cacheKeyPrefix` of the request is the user. Its own table maps its errors to ' +
      'statuses. It has no option for leases.',
    notSupported: ofValues,
    load: () => import('./peers/node-idempotency-core.ts'),
  },
  {
    id: 'powertools',
    name: 'powertools',
    packages: ['@aws-lambda-powertools/idempotency', '@redis/client', 'express'],
    framework: 'Express; the handler calls the library',
    setUp: POWERTOOLS,
    leaseMs: 1_500,
    notSupported: ofFunctions,
    load: () => import('./peers/powertools.ts'),
  },
  {
    id: 'powertools-validated',
    name: 'powertools, payload validation',
    packages: ['@aws-lambda-powertools/idempotency', '@redis/client', 'express'],
    framework: 'Express; the handler calls the library',
    setUp: "As in the column before, with `payloadValidationJmesPath: 'body'`.",
    leaseMs: 1_500,
    notSupported: ofFunctions,
    load: () => import('./peers/powertools-validated.ts'),
  },
  {
    id: 'unguarded',
    name: 'no guard (the floor)',
    packages: ['express'],
    framework: 'Express',
    setUp: 'None. It shows which rows a plain handler passes.',
    load: () => import('./peers/unguarded.ts'),
  },
]

/** Packages that `npm view` did not find in the registry of this project on that day. */
export const absent = {
  date: '2026-11-21',
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
