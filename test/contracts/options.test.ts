// The options of all public functions: names of other libraries, undefined values, and a function
// that is mounted without being called.

import Router from '@koa/router'
import {
  type CacheOptions,
  createStampede,
  type GetOrSetOptions,
  type IdempotencyOptions,
  memoryStore,
  type PurgeTarget,
  type Stampede,
  type StampedeOptions,
} from '@stampede/core'
import { stampedeDashboard } from '@stampede/dashboard'
import { idempotency, stampedeCache } from '@stampede/express'
import * as onFastify from '@stampede/fastify'
import * as onKoa from '@stampede/koa'
import { createLocks, createQuorumLocks, fencedUpdate } from '@stampede/locks'
import { stampedeMetrics } from '@stampede/metrics'
import { stampedeFront } from '@stampede/node-http'
import { instrumentStampede } from '@stampede/otel'
import { postgresStore } from '@stampede/postgres'
import { redisStore } from '@stampede/redis'
import express from 'express'
import express4 from 'express4'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import Koa from 'koa'
import Koa2 from 'koa2'
import { Pool } from 'pg'
import { Registry } from 'prom-client'
import request from 'supertest'
import { describe, expect, it } from 'vitest'

type RedisStoreOptions = NonNullable<Parameters<typeof redisStore>[1]>
type StampedeInstrumentation = NonNullable<Parameters<typeof instrumentStampede>[0]>
type MetricsOptions = Parameters<typeof stampedeMetrics>[0]
type DashboardOptions = Parameters<typeof stampedeDashboard>[0]
type AcquireOptions = NonNullable<Parameters<ReturnType<typeof createLocks>['acquire']>[1]>
type LocksOptions = Parameters<typeof createLocks>[0]
type QuorumOptions = NonNullable<Parameters<typeof createQuorumLocks>[1]>
type DataCacheOptions = Parameters<Stampede['cache']>[1]
type IdempotentOptions = NonNullable<Parameters<Stampede['idempotent']>[2]>

const store = memoryStore()
const stampede = createStampede({ store })
const locks = createLocks({ store })
const data = stampede.cache('options', { ttlMs: 1 })
const redis = (): Redis => new Redis({ lazyConnect: true })
/** Runs the function with options that its type may not allow, and returns its error. */
async function errorOf(run: (options: never) => unknown, options: object): Promise<string> {
  try {
    await run(options as never)
  } catch (error) {
    return String((error as Error).message)
  }
  throw new Error('the options were accepted')
}

describe('a name that other libraries have for an option', () => {
  const CACHE = {
    names: { maxAge: 'ttlMs', 'max-age': 'ttlMs', ttl: 'ttlMs', expire: 'ttlMs', expires: 'ttlMs' },
    more: { expiration: 'ttlMs', expiry: 'ttlMs', duration: 'ttlMs', lifetime: 'ttlMs' },
    stale: { swr: 'staleWhileRevalidateMs', stale: 'staleWhileRevalidateMs' },
    long: { staleWhileRevalidate: 'staleWhileRevalidateMs', staleIfError: 'staleIfErrorMs' },
    rest: {
      grace: 'staleIfErrorMs',
      timeout: 'originTimeoutMs',
      prefix: 'redisStore(redis, { prefix })',
    },
  }
  const cache = Object.assign({}, ...Object.values(CACHE)) as Record<string, string>
  const withStore = {
    store: 'stampede: createStampede({ store })',
    redis: 'stampede: createStampede({ store: redisStore(redis) })',
    client: 'stampede: createStampede({ store: redisStore(redis) })',
  }
  const withoutStore = {
    store: 'createStampede',
    redis: 'createStampede({ store: redisStore(redis) })',
    client: 'createStampede({ store: redisStore(redis) })',
  }
  /** All names with a meaning, for a function whose only duration is `ours`. */
  const lasting = (ours: string) =>
    Object.fromEntries(
      Object.keys(cache)
        .filter((name) => cache[name] === 'ttlMs')
        .map((name) => [name, ours]),
    )
  const direct = { redis: 'store: redisStore(redis)', client: 'store: redisStore(redis)' }

  const CASES: Readonly<
    Record<string, readonly [(options: never) => unknown, Record<string, string>]>
  > = {
    stampedeCache: [(options) => stampedeCache(options), { ...cache, ...withStore }],
    stampedeFront: [(options) => stampedeFront(() => {}, options), { ...cache, ...withStore }],
    getOrSet: [
      (options: object) => stampede.getOrSet('k', () => 1, { ttlMs: 1, ...options }),
      { ...cache, ...withoutStore },
    ],
    idempotency: [
      (options: object) => idempotency({ scope: () => 'a', ...options }),
      { ...lasting('retentionMs'), ...withStore, timeout: 'originTimeoutMs', prefix: 'redisStore' },
    ],
    createStampede: [
      (options) => createStampede(options),
      { ...cache, ...direct, swr: 'stampedeCache', grace: 'stampedeCache' },
    ],
    createLocks: [
      (options: object) => createLocks({ store, ...options }),
      {
        ...lasting('leaseMs'),
        ...direct,
        timeout: 'waitMs of acquire',
        keyPrefix: 'redisStore(redis, { prefix })',
      },
    ],
    acquire: [
      (options) => locks.acquire('k', options),
      { ...lasting('leaseMs'), timeout: 'waitMs' },
    ],
  }

  it.each(Object.entries(CASES))(
    'is rejected by %s with the option that is meant',
    async (_, one) => {
      const [run, names] = one
      for (const [name, meant] of Object.entries(names)) {
        const message = await errorOf(run, { [name]: 5 })
        expect(message).toContain(`.${name}: received 5; there is no such option; `)
        expect(message).toContain(meant)
        expect(message).not.toContain('known options')
      }
    },
  )
})

describe('the options of all functions', () => {
  /** Functions that list the names of their options for an unknown one. */
  const listed: Readonly<Record<string, (options: never) => unknown>> = {
    stampedeCache,
    getOrSet: (options) => stampede.getOrSet('k', () => 1, options),
    createStampede,
    'createStampede.l1': (l1) => createStampede({ l1 }),
    'createStampede.idempotency': (secrets) => createStampede({ idempotency: secrets }),
    idempotency,
    idempotent: (options) => stampede.idempotent('job', () => 1, options),
    purge: (options) => stampede.purge({ key: 'k' }, options),
    release: (options) => stampede.idempotency.release({ scope: 'a', key: 'k' }, options),
    redisStore: (options) => redisStore(redis(), options),
    postgresStore: (options) => postgresStore(new Pool(), options),
    createLocks,
    acquire: (options) => locks.acquire('k', options),
    createQuorumLocks: (options) => createQuorumLocks([memoryStore()], options),
    stampedeMetrics,
    stampedeDashboard,
    instrumentStampede,
  }
  /** Options that no list names. */
  const others = {
    'stampede.cache': ['serializer'],
    wrap: ['key'],
    fencedUpdate: ['column', 'placeholder'],
  }

  it('are at most 105', async () => {
    const names = Object.values(others).flat()
    for (const [where, run] of Object.entries(listed)) {
      const message = await errorOf(run, { '????????': 1 })
      const [, known = ''] = /known options: (.*)$/.exec(message) ?? []
      expect(known, `${where}: ${message}`).not.toBe('')
      names.push(...known.split(', ').map((name) => `${where}.${name}`))
    }
    const groups = names.filter((name) => listed[name] !== undefined)
    expect(groups).toHaveLength(2)
    expect(names.length - groups.length).toBeLessThanOrEqual(105)
  })
})

// --- undefined ---------------------------------------------------------------------------------

/** The optional properties, all undefined. Does not compile if a property may not be undefined. */
type AllUndefined<T> = {
  [Name in keyof T as object extends Pick<T, Name> ? Name : never]-?: Record<
    Name,
    undefined
  > extends Pick<T, Name>
    ? undefined
    : `${string & Name} may not be undefined`
}

const rules: AllUndefined<CacheOptions> = {
  ...{ stampede: undefined, ttlMs: undefined, overrideHeaders: undefined },
  ...{ staleWhileRevalidateMs: undefined, staleIfErrorMs: undefined, keepMs: undefined },
  ...{ negativeTtlMs: undefined, jitter: undefined, key: undefined },
  ...{ methods: undefined, query: undefined },
  ...{ vary: undefined, identity: undefined, authorization: undefined, cookies: undefined },
  ...{ targetedFields: undefined, tags: undefined, statuses: undefined },
  ...{ requestDirectives: undefined, maxBodyBytes: undefined },
  ...{ leaseMs: undefined, waitMs: undefined, afterWait: undefined },
  ...{ originTimeoutMs: undefined, softTimeoutMs: undefined, revalidate: undefined },
  ...{ invalidateOn: undefined, bypass: undefined },
  ...{ cacheStatus: undefined, audit: undefined },
}
const attempts: AllUndefined<Omit<IdempotentOptions, 'scope' | 'input'>> = {
  ...{ leaseMs: undefined, retentionMs: undefined },
  ...{ onBusy: undefined, onLeaseExpired: undefined, transaction: undefined },
}
const job: AllUndefined<IdempotentOptions> = { ...attempts, scope: undefined, input: undefined }
const keys: AllUndefined<IdempotencyOptions> = {
  ...attempts,
  ...{ stampede: undefined, required: undefined, methods: undefined, headers: undefined },
  ...{ strict: undefined, onStoreError: undefined, fingerprint: undefined },
  ...{ maxBodyBytes: undefined, docsUrl: undefined },
}
const given: AllUndefined<
  Extract<Parameters<Stampede['idempotency']['resolve']>[1], { body?: unknown }>
> = { status: undefined, headers: undefined, body: undefined }
const values: AllUndefined<GetOrSetOptions> = {
  ...{ staleWhileRevalidateMs: undefined, staleIfErrorMs: undefined, keepMs: undefined },
  ...{ tags: undefined, jitter: undefined, leaseMs: undefined, waitMs: undefined },
  ...{ originTimeoutMs: undefined, softTimeoutMs: undefined },
}
const dataCache: AllUndefined<DataCacheOptions> = { ...values, serializer: undefined }
/** An environment variable that is not set is undefined, so `secret` has no default. */
const secrets: AllUndefined<Omit<NonNullable<StampedeOptions['idempotency']>, 'secret'>> = {
  ...{ encryptionKeys: undefined, store: undefined },
}
const l1: AllUndefined<NonNullable<StampedeOptions['l1']>> = {
  maxBytes: undefined,
  maxEntries: undefined,
  maxEntryBytes: undefined,
}
const process_: AllUndefined<StampedeOptions> = {
  ...{ store: undefined, l1: undefined, failureBackoffMs: undefined },
  ...{ originConcurrency: undefined, idempotency: undefined, waitUntil: undefined },
  clock: undefined,
}
const onRedis: AllUndefined<RedisStoreOptions> = {
  ...{ prefix: undefined, commandTimeoutMs: undefined, compress: undefined },
}
const compressed: AllUndefined<Exclude<RedisStoreOptions['compress'], boolean | undefined>> = {
  ...{ minBytes: undefined, codec: undefined, level: undefined },
}
const purged: AllUndefined<NonNullable<Parameters<Stampede['purge']>[1]>> = { soft: undefined }
const path: AllUndefined<
  Omit<Extract<PurgeTarget, { path: string }>, 'key' | 'route' | 'tag' | 'all'>
> = {
  ...{ host: undefined, keys: undefined, paths: undefined, routes: undefined, tags: undefined },
  cache: undefined,
}
const locking: AllUndefined<LocksOptions> = {
  ...{ leaseMs: undefined, maxHoldMs: undefined, wait: undefined, clock: undefined },
}
const quorum: AllUndefined<QuorumOptions> = { nodeTimeoutMs: undefined }
const acquiring: AllUndefined<AcquireOptions> = {
  ...{ leaseMs: undefined, waitMs: undefined, signal: undefined, within: undefined },
}
const metrics: AllUndefined<MetricsOptions> = {
  ...{ locks: undefined, registry: undefined, labels: undefined },
}
const dashboard: AllUndefined<DashboardOptions> = {
  ...{ locks: undefined, path: undefined, showKeys: undefined },
}
const tracing: AllUndefined<StampedeInstrumentation> = {
  keys: undefined,
}
const column: AllUndefined<NonNullable<Parameters<typeof fencedUpdate>[1]>> = {
  column: undefined,
  placeholder: undefined,
}

describe('options that are undefined', () => {
  const page: express.RequestHandler = (_req, res) => {
    res.send('page')
  }

  it('have their defaults in middlewares', async () => {
    const app = express()
    app.get('/', stampedeCache({ ...rules, ttlMs: 60_000 }), page)
    app.post('/', idempotency({ ...keys, scope: () => 'a' }), page)
    app.post('/wait', idempotency({ ...keys, scope: () => 'a', onBusy: { waitMs: 1 } }), page)
    // Without it, each request has another port in its key.
    const get = () => request(app).get('/').set('Host', 'shop.test')
    expect((await get()).headers['cache-status']).toContain('stored')
    expect((await get()).headers['cache-status']).toContain('hit')
    for (const url of ['/', '/wait']) {
      const post = () => request(app).post(url).set('Idempotency-Key', 'k')
      expect((await post()).headers['idempotency-replayed']).toBeUndefined()
      expect((await post()).headers['idempotency-replayed']).toBe('true')
    }
    expect(onKoa.stampedeCache(rules as never)).toBeTypeOf('function')
    expect(onFastify.stampedeCache(rules as never)).toBeTypeOf('function')
    expect(stampedeFront(() => {}, rules)).toBeTypeOf('function')
  })

  it('have their defaults in a Stampede and its methods', async () => {
    const other = createStampede({
      ...process_,
      l1,
      idempotency: secrets,
      store: memoryStore(),
    })
    expect(await other.getOrSet('k', () => 1, { ...values, ttlMs: 60_000 })).toBe(1)
    expect(await other.getOrSet('k', () => 2, { ...values, ttlMs: 60_000 })).toBe(1)
    await other.purge({ key: 'k' }, purged)
    await other.purge({ path: '/', ...path }, purged)
    expect(await other.getOrSet('k', () => 2, { ...values, ttlMs: 60_000 })).toBe(2)
    const cache = other.cache('c', { ...dataCache, ttlMs: 60_000 })
    const overrides = { ...values, ttlMs: undefined }
    expect(await cache.getOrSet('k', () => 1, overrides)).toBe(1)
    expect(await cache.set('k', 2, overrides)).toBe(2)
    expect(await cache.wrap(() => 3, { ...overrides, key: () => 'k' })()).toBe(2)
    expect(await other.idempotent('job', () => 1, job)).toBe(1)
    expect(await other.idempotent('job', () => 2, job)).toBe(1)
    await other.close()
    await createStampede(process_).close()
    expect(data).toBeDefined()
  })

  it('have their defaults in locks', async () => {
    const all = createLocks({ ...locking, store: memoryStore() })
    await (await all.acquire('k', acquiring)).release()
    await (await all.tryAcquire('k', { leaseMs: undefined }))?.release()
    const nodes = createQuorumLocks([memoryStore()], quorum)
    await (await nodes.acquire('k', { ...acquiring, within: undefined } as object)).release()
    expect(fencedUpdate(1n, column)).toEqual(fencedUpdate(1n))
  })

  it('have their defaults in stores and in tools for operators', () => {
    const client = redis()
    expect(redisStore(client, onRedis)).toBeDefined()
    expect(redisStore(client, { compress: compressed })).toBeDefined()
    client.disconnect()
    const registry = new Registry()
    stampedeMetrics({ ...metrics, stampede, registry }).close()
    stampedeMetrics({ ...metrics, stampede }).close()
    const options = { ...dashboard, stampede, authorize: 'insecure-local' } as const
    expect(stampedeDashboard(options)).toBeTypeOf('function')
    instrumentStampede(tracing)()
    expect(given).toBeDefined()
  })

  it('are an error for the secret of idempotency keys, which TypeScript knows', () => {
    // @ts-expect-error: other processes may have the secret, so there is no default.
    expect(() => createStampede({ idempotency: { secret: undefined } })).toThrow('secret')
    // AllUndefined finds a property that may not be undefined.
    type Secret = AllUndefined<NonNullable<StampedeOptions['idempotency']>>['secret']
    const found: Secret = 'secret may not be undefined'
    expect(found).toContain('secret')
  })
})

// --- A function that is not called ---------------------------------------------------------------

describe('a function that is mounted without being called', () => {
  it.each([
    ['Express 5', express],
    ['Express 4', express4],
  ])(
    'is named in the error of the first request, and rejected by TypeScript: %s',
    async (_, create) => {
      for (const name of ['stampedeCache', 'idempotency'] as const) {
        const app = create()
        if (name === 'stampedeCache') {
          // @ts-expect-error: not called
          app.use(stampedeCache)
        } else {
          // @ts-expect-error: not called
          app.use(idempotency)
        }
        const failed: express.ErrorRequestHandler = (error, _req, res, _next) => {
          res.status(500).send(error.message)
        }
        app.use(failed)
        const { text } = await request(app).get('/')
        expect(text).toMatch(new RegExp(`^${name}: .*without being called; mount ${name}\\(`))
      }
    },
  )

  it('is rejected by TypeScript as a handler of a route in Express', () => {
    const app = express()
    // @ts-expect-error: not called
    app.get('/', stampedeCache)
    // @ts-expect-error: not called
    app.post('/', idempotency)
    // @ts-expect-error: not called
    express.Router().use(stampedeCache)
    expect(app).toBeDefined()
  })

  it.each([
    ['Koa 3', Koa],
    ['Koa 2', Koa2],
  ])(
    'is named in the error of the first request, and rejected by TypeScript: %s',
    async (_, App) => {
      for (const name of ['stampedeCache', 'idempotency'] as const) {
        const app = new App()
        const errors: string[] = []
        app.on('error', (error) => errors.push(error.message))
        if (name === 'stampedeCache') {
          // @ts-expect-error: not called
          app.use(onKoa.stampedeCache)
        } else {
          // @ts-expect-error: not called
          app.use(onKoa.idempotency)
        }
        expect((await request(app.callback()).get('/')).status).toBe(500)
        expect(errors.join()).toMatch(
          new RegExp(`^${name}: .*without being called; mount ${name}\\(`),
        )
      }
      const router = new Router()
      // @ts-expect-error: not called
      router.get('/', onKoa.stampedeCache)
      // @ts-expect-error: not called
      router.post('/', onKoa.idempotency)
    },
  )

  it('is named in the error of the first request, and rejected by TypeScript: Fastify', async () => {
    const { stampedeCache: cache, idempotency: once } = onFastify
    // These would end the process with the error, because Fastify does not catch it.
    const misuse = () => {
      // @ts-expect-error: not called
      fastify().register(cache)
      // @ts-expect-error: not called
      fastify().register(once)
    }
    expect(misuse).toBeTypeOf('function')
    const app = fastify()
    // @ts-expect-error: not called
    app.get('/hook', { onRequest: cache }, () => 'page')
    // @ts-expect-error: not called
    app.post('/hook', { preHandler: [once] }, () => 'page')
    expect((await app.inject('/hook')).json().message).toMatch(/^stampedeCache: .*without being/)
    const posted = await app.inject({ method: 'POST', url: '/hook' })
    expect(posted.json().message).toMatch(/^idempotency: .*without being called/)
    const hooked = fastify()
    // @ts-expect-error: not called
    hooked.addHook('onRequest', cache)
    hooked.get('/', () => 'page')
    expect((await hooked.inject('/')).json().message).toMatch(/^stampedeCache: .*without being/)
  })
})
