// The whole journey in Express 4 and 5, with the real core and its memory store.

import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { createStampede } from '@stampede/core'
import type { Express, Request, RequestHandler, Response, Router as Routes } from 'express'
import { describe, expect, test } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { fieldOf, rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache, strict } from './index.ts'

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const VERSIONS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

describe.each(VERSIONS)('%s', (_, express) => {
  const { Router } = express as unknown as { Router: () => Routes }

  test('many requests at once run the app once, and get the same answer', async () => {
    let runs = 0
    const app = express().use(compression(), stampedeCache({ ttlMs: 60_000 }))
    app.get('/', async (_req, res) => {
      runs += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
      Readable.from(['one ', 'run ', String(runs)]).pipe(res.type('txt'))
    })
    await using server = await serve(app)
    const url = `http://127.0.0.1:${server.port}/`
    const cold = await Promise.all(
      Array.from({ length: 50 }, async () => (await fetch(url)).text()),
    )
    expect(new Set(cold)).toEqual(new Set(['one run 1']))
    expect(runs).toBe(1)
  })

  test('a hit is answered with length, age and type, and 304 to who has it', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000 }))
    app.get('/', (_req, res) => void res.json({ price: 7 }))
    await using server = await serve(app)
    const miss = await rawRequest(server.port)
    const hit = await rawRequest(server.port)
    expect(hit.body).toBe(miss.body)
    expect(fieldOf(hit, 'content-type')).toEqual(fieldOf(miss, 'content-type'))
    expect(fieldOf(hit, 'etag')).toEqual(fieldOf(miss, 'etag'))
    expect(fieldOf(hit, 'age')).toEqual(['0'])
    expect(fieldOf(miss, 'cache-status')[0]).toContain('fwd=uri-miss')
    expect(fieldOf(hit, 'cache-status')[0]).toContain('hit')
    const [etag = ''] = fieldOf(hit, 'etag')
    const same = await rawRequest(server.port, '/', [`If-None-Match: ${etag}`])
    expect(same.head[0]).toContain('304')
  })

  test.each([
    ['the app that has the cache', true, false],
    ['the mounted app that answers', false, true],
  ])(
    'no ETag is minted, nor on a refresh, if `etag` is off in %s',
    async (_which, outer, inner) => {
      const clock = new ManualClock()
      const stampede = createStampede({ clock })
      const app = express()
      if (outer) app.disable('etag')
      app.use(stampedeCache({ stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000 }))
      const mounted = inner ? express().disable('etag') : Router()
      let runs = 0
      mounted.get('/', (_req, res) => void res.json({ run: ++runs }))
      app.use('/mounted', mounted)
      await using server = await serve(app)
      const asking = () => rawRequest(server.port, '/mounted')
      expect(fieldOf(await asking(), 'etag')).toEqual([])
      const hit = await asking()
      expect([hit.body, fieldOf(hit, 'etag')]).toEqual(['{"run":1}', []])
      await clock.advance(2_000)
      expect((await asking()).body).toBe('{"run":1}')
      await expect.poll(() => stampede.stats().fills.committed).toBe(2)
      const refreshed = await asking()
      expect([refreshed.body, fieldOf(refreshed, 'etag')]).toEqual(['{"run":2}', []])
    },
  )

  test('a client may ask for a newer response with the options `strict`', async () => {
    let runs = 0
    const app = express().use(stampedeCache({ ...strict, ttlMs: 60_000 }))
    app.get('/', (_req, res) => void res.json({ run: ++runs }))
    await using server = await serve(app)
    await rawRequest(server.port)
    const asked = await rawRequest(server.port, '/', ['Cache-Control: no-cache'])
    expect([asked.body, fieldOf(asked, 'cache-status')]).toEqual([
      '{"run":2}',
      ['Stampede; fwd=request'],
    ])
  })

  test('an ETag is minted if `etag` is on and Express makes none', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000 }))
    app.get('/', (_req, res) => void res.end('raw'))
    await using server = await serve(app)
    const [etag] = fieldOf(await rawRequest(server.port), 'etag')
    expect(etag).toMatch(/^W\//)
    expect(fieldOf(await rawRequest(server.port), 'etag')).toEqual([etag])
  })

  test('a fresh answer is refreshed before its time through the whole app', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock, random: () => 0.5 })
    let runs = 0
    const app = express().use(compression())
    app.use(stampedeCache({ stampede, ttlMs: 60_000, jitter: 0, earlyRefresh: 100 }))
    app.get('/', async (_req, res) => {
      runs += 1
      const run = runs
      await clock.advance(2_000)
      res.json({ run })
    })
    await using server = await serve(app)
    expect((await rawRequest(server.port)).body).toBe('{"run":1}')
    expect((await rawRequest(server.port)).body).toBe('{"run":1}')
    await expect.poll(() => stampede.stats().fills.committed).toBe(2)
    expect((await rawRequest(server.port)).body).toBe('{"run":2}')
  })

  test('a stale answer is refreshed behind it through the whole app', async () => {
    let runs = 0
    let refreshed: () => void = () => {}
    const refresh = new Promise<void>((resolve) => {
      refreshed = resolve
    })
    const app = express().use(compression())
    app.use(stampedeCache({ ttlMs: 1, staleWhileRevalidateMs: 60_000, jitter: 0 }))
    app.get('/', (_req, res) => {
      runs += 1
      if (runs === 2) res.once('close', refreshed)
      res.json({ runs })
    })
    await using server = await serve(app)
    expect((await rawRequest(server.port)).body).toBe('{"runs":1}')
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect((await rawRequest(server.port)).body).toBe('{"runs":1}')
    await refresh
    await new Promise(setImmediate)
    expect((await rawRequest(server.port)).body).toBe('{"runs":2}')
  })

  test('an error of a refresh in the foreground is replaced by the stale answer', async () => {
    let broken = false
    const app = express().set('env', 'test')
    app.use(stampedeCache({ ttlMs: 1, staleIfErrorMs: 60_000, jitter: 0 }))
    app.get('/', (_req, res, next) => (broken ? next(new Error('db')) : void res.send('good')))
    await using server = await serve(app)
    expect((await rawRequest(server.port)).body).toBe('good')
    broken = true
    await new Promise((resolve) => setTimeout(resolve, 5))
    const stale = await rawRequest(server.port)
    expect(stale.head[0]).toContain('200')
    expect(stale.body).toBe('good')
    expect(fieldOf(stale, 'cache-status')[0]).toContain('stale-if-error')
  })

  test('is tagged by what the handler left in res.locals, also behind a stale answer', async () => {
    const stampede = createStampede()
    const seen: string[] = []
    const refreshed = new Promise<void>((resolve) => {
      stampede.on('fill.committed', () => seen.length === 2 && resolve())
    })
    const app = express()
    const router = Router()
    const options = { stampede, staleWhileRevalidateMs: 60_000, jitter: 0 }
    const tags = (req: Request, res: Response) => {
      const { product } = res.locals
      seen.push(`${req.params.id} at ${req.baseUrl}: ${product}, ${res.statusCode}`)
      return [`product:${product}`, `mount:${req.baseUrl}`]
    }
    let runs = 0
    const cache = stampedeCache({ ...options, ttlMs: 60_000, tags })
    router.get('/products/:id', cache, (req, res) => {
      runs += 1
      res.locals.product = `${req.params.id}, run ${runs}`
      res.send(`run ${runs}`)
    })
    app.use('/shop', router)
    await using server = await serve(app)
    const ask = async () => (await rawRequest(server.port, '/shop/products/7')).body
    expect(await ask()).toBe('run 1')
    await stampede.purge({ tag: 'product:7, run 1' }, { soft: true })
    expect(await ask()).toBe('run 1')
    await refreshed
    expect(seen).toEqual(['7 at /shop: 7, run 1, 200', '7 at /shop: 7, run 2, 200'])
    expect(await ask()).toBe('run 2')
    await stampede.purge({ tag: 'product:7, run 2' })
    expect(await ask()).toBe('run 3')
    await stampede.purge({ tag: 'mount:/shop' })
    expect(await ask()).toBe('run 4')
  })

  test('is purged on the host that a trusted proxy names', async () => {
    const stampede = createStampede()
    let runs = 0
    const app = express().set('trust proxy', true)
    app.use('/shop', stampedeCache({ stampede, ttlMs: 60_000 }))
    app.get('/shop/:page', (_req, res) => {
      runs += 1
      res.send(`run ${runs}`)
    })
    await using server = await serve(app)
    const ask = async () =>
      (await rawRequest(server.port, '/shop/a', ['X-Forwarded-Host: shop.test'])).body
    expect(await ask()).toBe('run 1')
    await stampede.purge({ path: '/shop/a', host: `127.0.0.1:${server.port}` })
    await stampede.purge({ path: '/a' })
    expect(await ask()).toBe('run 1')
    await stampede.purge({ path: '/shop/a', host: 'Shop.test' })
    expect(await ask()).toBe('run 2')
    await stampede.purge({ route: '/shop/:page' })
    expect(await ask()).toBe('run 3')
  })
})
