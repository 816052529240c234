// The steps of docs/migrate, in which an old library and Stampede run side by side.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createKeyv } from '@keyv/redis'
import { BentoCache, bentostore, memoryDriver } from '@stampede/bench-bentocache'
import { createStampede, type Stampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import apicache from 'apicache'
import { createCache } from 'cache-manager'
import { getSharedIdempotencyService, idempotency as idempotencyOld } from 'express-idempotency'
import expressRedisCache from 'express-redis-cache'
import express4 from 'express4'
import { Redis } from 'ioredis'
import Koa from 'koa'
import koaCash from 'koa-cash'
import { LRUCache } from 'lru-cache'
import Redlock from 'redlock'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { listen } from '../lib/http.ts'
import { type RedisServer, startRedis } from '../lib/redis.ts'

let server: RedisServer
let redis: Redis
let stampede: Stampede

beforeAll(async () => {
  server = await startRedis()
  redis = new Redis(server.port)
})

afterAll(async () => {
  redis.disconnect()
  await server[Symbol.asyncDispose]()
})

beforeEach(async () => {
  await redis.flushall()
  stampede = createStampede()
  onTestFinished(() => stampede.close())
})

async function serve(listener: RequestListener): Promise<string> {
  const http = createServer(listener)
  onTestFinished(() => void http.close())
  return `http://127.0.0.1:${await listen(http)}`
}

const statusOf = ({ headers }: Response): string => headers.get('cache-status') ?? ''

describe('Stampede in front of a response cache', () => {
  async function expectFilled(listener: RequestListener, switchOn: () => void): Promise<void> {
    const url = `${await serve(listener)}/page`
    const bodies = [await (await fetch(url)).text()]
    await sleep(100)
    switchOn()
    for (const part of ['stored', 'hit']) {
      const response = await fetch(url)
      expect(statusOf(response)).toContain(part)
      bodies.push(await response.text())
      await sleep(50)
    }
    expect(new Set(bodies)).toEqual(new Set(['{"run":1}']))
  }

  it('is filled from entries of apicache', async () => {
    let isOn = false
    let runs = 0
    const front = stampedeCache({ stampede, ttlMs: 60_000 })
    const old = apicache.newInstance().middleware('60 seconds')
    const app = express4()
    app.use((req, res, next) => (isOn ? front(req, res, next) : next()))
    app.get('/page', old, (_req, res) => void res.json({ run: ++runs }))
    await expectFilled(app, () => {
      isOn = true
    })
  })

  it('is filled from entries of express-redis-cache', async () => {
    let isOn = false
    let runs = 0
    const front = stampedeCache({ stampede, ttlMs: 60_000 })
    const cache = expressRedisCache({ host: '127.0.0.1', port: server.port, expire: 60 })
    cache.on('error', () => {})
    await once(cache, 'connected')
    const app = express4()
    app.use((req, res, next) => (isOn ? front(req, res, next) : next()))
    app.get('/page', cache.route(), (_req, res) => void res.json({ run: ++runs }))
    await expectFilled(app, () => {
      isOn = true
    })
  })

  it('is filled from entries of koa-cash', async () => {
    let isOn = false
    let runs = 0
    const front = koaCache({ stampede, ttlMs: 60_000 })
    const lru = new LRUCache<string, object>({ max: 100 })
    const set = async (key: string, value: object) => void lru.set(key, value)
    const app = new Koa()
    app.use((ctx, next) => (isOn ? front(ctx, next) : next()))
    app.use(koaCash({ maxAge: 60_000, get: async (key: string) => lru.get(key), set }))
    app.use(async (ctx) => {
      if (await (ctx as unknown as { cashed(): Promise<boolean> }).cashed()) return
      ctx.body = { run: ++runs }
    })
    await expectFilled(app.callback(), () => {
      isOn = true
    })
  })
})

describe('a factory of Stampede', () => {
  it('reads the value of cache-manager', async () => {
    const cache = createCache({ stores: [createKeyv(server.url)] })
    onTestFinished(() => cache.disconnect())
    await cache.set('rates:eur', { rate: 1 }, 60_000)
    const rates = stampede.cache('rates', { ttlMs: 60_000 })
    const eur = await rates.getOrSet(
      'eur',
      async () => (await cache.get('rates:eur')) ?? { rate: 2 },
    )
    expect(eur).toEqual({ rate: 1 })
  })

  it('reads the value of bentocache', async () => {
    const store = bentostore().useL1Layer(memoryDriver({ maxSize: '10mb' }))
    const bento = new BentoCache({ default: 'memory', stores: { memory: store } })
    await bento.set({ key: 'rates:eur', value: { rate: 1 }, ttl: '1m' })
    const rates = stampede.cache('rates', { ttlMs: 60_000 })
    const eur = await rates.getOrSet(
      'eur',
      async () => (await bento.get({ key: 'rates:eur' })) ?? { rate: 2 },
    )
    expect(eur).toEqual({ rate: 1 })
  })
})

describe('a lock of both libraries', () => {
  it('keeps out a process with redlock alone, and one with Stampede alone', async () => {
    const locks = createLocks({ store: redisStore(redis, { prefix: 'shop' }) })
    onTestFinished(() => locks.close())
    const redlock = new Redlock([redis], { retryCount: 0 })
    await locks.run('invoice:7', { leaseMs: 5_000, waitMs: 10_000 }, () =>
      redlock.using(['invoice:7'], 5_000, async () => {
        await expect(redlock.acquire(['invoice:7'], 1_000)).rejects.toThrow('quorum')
        expect(await locks.tryAcquire('invoice:7')).toBe(null)
      }),
    )
  })
})

describe('idempotency keys in both libraries', () => {
  it('run a handler once for keys of the old library, and of both', async () => {
    let runs = 0
    let hasNew = false
    const app = express4()
    app.use(express4.json())
    const old = idempotencyOld()
    const service = getSharedIdempotencyService()
    const protect = idempotency({ stampede, scope: () => 'user-7', required: false })
    app.post(
      '/orders',
      old,
      (req, res, next) => {
        if (service.isHit(req)) return
        res.once('finish', () => {
          if (res.hasHeader('Idempotency-Replayed')) void service.reportError(req)
        })
        next()
      },
      (req, res, next) => (hasNew ? protect(req, res, next) : next()),
      (req, res) => void res.status(req.body.status).json({ run: ++runs }),
    )
    const url = `${await serve(app)}/orders`
    const post = async (key: string, status = 201) => {
      const headers = { 'content-type': 'application/json', 'idempotency-key': key }
      const response = await fetch(url, {
        method: 'POST',
        headers,
        body: JSON.stringify({ status }),
      })
      await sleep(50)
      return `${response.status} ${await response.text()}`
    }

    expect(await post('of-the-old-library')).toBe('201 {"run":1}')
    hasNew = true
    expect(await post('of-the-old-library')).toBe('201 {"run":1}')
    for (let repeat = 0; repeat < 3; repeat += 1)
      expect(await post('of-both')).toBe('201 {"run":2}')
    for (let repeat = 0; repeat < 3; repeat += 1)
      expect(await post('not-found', 404)).toBe('404 {"run":3}')
    expect(await post('failed', 500)).toBe('500 {"run":4}')
    expect(await post('failed', 500)).toBe('500 {"run":5}')
  })
})
