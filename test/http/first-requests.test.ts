// The event `cache.sampled` of a real app after the first 100 GET requests of a cache, and its
// requests that are not cached, by route.

import { createStampede, memoryStore, type Stampede, type StampedeEvent } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { entryFacts } from '@stampede/operate'
import { redisStore } from '@stampede/redis'
import express, { type Express, type Request, type RequestHandler } from 'express'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'

interface Asked {
  readonly options?: object
  readonly handler?: RequestHandler
  /** Path of the request with this number. */
  readonly path: (i: number) => string
  readonly method?: string
  readonly headers?: (i: number) => Record<string, string>
  readonly isTogether?: boolean
}

/** The events after 100 requests, and how often the handler ran. */
async function sampleOf({ options, handler, path, method = 'GET', headers, isTogether }: Asked) {
  const stampede = createStampede()
  const seen: StampedeEvent[] = []
  stampede.on('cache.sampled', (event) => void seen.push(event))
  let runs = 0
  const app = express().use(stampedeCache({ stampede, ttlMs: 60_000, ...options }))
  app.all(/.*/, async (req, res, next) => {
    runs += 1
    await new Promise((resolve) => setImmediate(resolve))
    return handler ? handler(req, res, next) : res.send('page')
  })
  await using listening = await listen(app)
  const url = listening.url
  try {
    const ask = async (i: number) => {
      const init = { method, headers: headers?.(i) ?? {} }
      await (await fetch(url + path(i), init)).text()
    }
    const all = Array.from({ length: 100 }, (_, i) => i)
    if (isTogether) await Promise.all(all.map(ask))
    else for (const i of all) await ask(i)
    return { seen, runs }
  } finally {
    await stampede.close()
  }
}

describe('cache.sampled', () => {
  it.each([
    ['identity', { identity: (req: Request) => String(req.headers['x-id']) }],
    ['key', { key: (req: Request) => String(req.headers['x-id']) }],
    ['cookies', { cookies: { key: ['sid'] } }],
  ])('warns of no missing hits if each caller has entries by %s', async (option, options) => {
    const codes: unknown[] = []
    const listen = (warning: Error & { code?: string }): void => void codes.push(warning.code)
    process.on('warning', listen)
    const headers = (i: number) =>
      option === 'cookies' ? { cookie: `sid=${i}` } : { 'x-id': String(i) }
    const { seen } = await sampleOf({ options, path: () => '/p', headers })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', listen)
    expect(seen).toMatchObject([{ stored: 100, hits: 0 }])
    expect(codes).not.toContain('STAMPEDE_NEVER_HIT')
  })

  it('does not come for POST requests', async () => {
    expect((await sampleOf({ path: () => '/p', method: 'POST' })).seen).toEqual([])
  })
})

/** Serves a cached app, and stops all of it. */
async function serve(
  stampede: Stampede,
  configure: (app: Express) => void,
  use: (ask: (path: string, init?: RequestInit) => Promise<void>) => Promise<void>,
): Promise<void> {
  const app = express().use(stampedeCache({ stampede, ttlMs: 60_000, invalidateOn: 'all' }))
  configure(app)
  await using listening = await listen(app)
  const url = listening.url
  try {
    await use(async (path, init = {}) => void (await (await fetch(url + path, init)).text()))
  } finally {
    await stampede.close()
  }
}

describe('stats().notCached', () => {
  it('has bypasses and responses that were not stored, by route and reason', async () => {
    const stampede = createStampede()
    const configure = (app: Express): void => {
      app.get('/account/:id', (_req, res) => void res.set('cache-control', 'private').send('Ada'))
      app.get('/products', (_req, res) => void res.send('products'))
      app.get('/broken', (_req, res) => void res.status(503).send('no'))
      app.post('/orders', (_req, res) => void res.send('ordered'))
    }
    await serve(stampede, configure, async (ask) => {
      for (const path of ['/account/1', '/account/1', '/account/2', '/products', '/products'])
        await ask(path)
      await ask('/products', { headers: { cookie: 'a=1' } })
      await ask('/broken')
      await ask('/orders', { method: 'POST' })
      expect(stampede.stats().notCached).toEqual({
        '/account/:id': { private: 3 },
        '/broken': { 'server-error': 1 },
        '(http)': { cookie: 1 },
      })
    })
  })

  it('has responses that an unavailable Redis did not store', async () => {
    const redis = new Redis({ port: 1, lazyConnect: true, retryStrategy: () => null })
    redis.on('error', () => {})
    const stampede = createStampede({ store: redisStore(redis) })
    const configure = (app: Express): void => {
      app.get('/products', (_req, res) => void res.send('products'))
    }
    await serve(stampede, configure, async (ask) => {
      await ask('/products')
      expect(stampede.stats().notCached).toEqual({ '/products': { 'store-unavailable': 1 } })
    })
    redis.disconnect()
  })
})

it('the facts of an entry have the tags of the app, not its middleware', async () => {
  const store = memoryStore()
  const stampede = createStampede({ store })
  const configure = (app: Express): void => {
    app.get('/products', (_req, res) => void res.set('surrogate-key', 'shop').send('products'))
  }
  await serve(stampede, configure, async (ask) => {
    await ask('/products')
    const { keys } = await store.operator.scan('cache', '', 10)
    const info = await store.operator.inspect(keys[0] ?? '')
    expect(info && (await entryFacts(stampede, info))).toMatchObject({ tags: ['shop'] })
  })
})
