// Express alone in the journey of a cached request: ETags, `res.locals`, proxies, compression. The
// rest is in the contract (test/contracts/cache-adapters.versions.test.ts).

import { createRequire } from 'node:module'
import { PassThrough } from 'node:stream'
import { createStampede } from '@stampede/core'
import type {
  ErrorRequestHandler,
  Express,
  Request,
  RequestHandler,
  Response,
  Router as Routes,
} from 'express'
import { describe, expect, test } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { fieldOf, rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const VERSIONS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

describe.each(VERSIONS)('stampedeCache on %s', (_, express) => {
  const { Router } = express as unknown as { Router: () => Routes }

  test.each([
    ['the app that has the cache', true, false],
    ['the mounted app that responds', false, true],
  ])('adds no ETag if the Express setting `etag` is off in %s', async (_which, outer, inner) => {
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
  })

  test('counts requests in stats().routes by the pattern of their route', async () => {
    const stampede = createStampede()
    const app = express().use(stampedeCache({ stampede, ttlMs: 60_000 }))
    const router = Router()
    router.get('/:id', (_req, res) => void res.send('product'))
    app.use('/products', router)
    app.post('/orders', stampedeCache({ stampede }), (_req, res) => void res.sendStatus(201))
    await using server = await serve(app)
    for (const path of ['/products/1', '/products/2', '/products/1', '/none']) {
      await rawRequest(server.port, path)
    }
    await fetch(`http://127.0.0.1:${server.port}/orders`, { method: 'POST' })
    expect(stampede.stats().routes).toMatchObject({
      '/products/:id': { hits: 1, misses: 2, bytes: 7 },
      '(http)': { misses: 1, bypasses: 1 },
      '/orders': { bypasses: 1 },
    })
  })

  test('shows no value of a parameter in the name of a route, for routers and apps', async () => {
    const stampede = createStampede()
    const app = express().use(stampedeCache({ stampede, ttlMs: 60_000 }))
    const [outer, inner, mounted] = [Router(), Router(), express()]
    inner.get('/items/:id', (_req, res) => void res.send('item'))
    outer.use('/of-:user', inner)
    mounted.get('/page', (_req, res) => void res.send('page'))
    app.use('/v1/:token', outer)
    app.use('/apps/:name', mounted)
    const wrapped = (...[req, res, next]: Parameters<RequestHandler>) => inner(req, res, next)
    app.use('/lazy/:token', wrapped)
    await using server = await serve(app)
    for (const path of ['/v1/s3cret/of-ada/items/1', '/V1/1/of-eve%20b/items/2', '/apps/x/page']) {
      expect((await rawRequest(server.port, path)).body).toMatch(/^(item|page)$/)
    }
    await rawRequest(server.port, '/lazy/s3cret/items/1')
    const names = Object.keys(stampede.stats().routes)
    expect(names.slice(1)).toEqual(['/apps/:name/page', '/lazy/:token/items/:id'])
    expect(names[0]).toMatch(/^\/v1\/:token\/(of-)?:user\/items\/:id$/)
  })

  test('sees the request as the client sent it, with the host of a proxy only if Express trusts it', async () => {
    const stampede = createStampede()
    const keys: unknown[] = []
    stampede.on('fill.started', ({ key }) => keys.push(key))
    const app = express().use('/shop', stampedeCache({ stampede, ttlMs: 60_000 }))
    app.get('/shop/:page', (_req, res) => void res.send('page'))
    await using server = await serve(app)
    const fields = ['X-Forwarded-Host: public.test:444, inner', 'X-Forwarded-Proto: https']
    await rawRequest(server.port, '/shop/b?x=1&x=2', fields)
    app.set('trust proxy', 'loopback')
    await rawRequest(server.port, '/shop/b?x=1&x=2', fields)
    expect(keys).toEqual([
      'GET http://shop.test:8080/shop/b?x=1&x=2',
      'GET https://public.test:444/shop/b?x=1&x=2',
    ])
  })

  test('gives `key` the route parameters, and passes an error of `key` to Express', async () => {
    const app = express().set('env', 'test')
    const key = (req: Request<{ id: string }>) => {
      if (req.params.id === 'bad') throw new Error('no key')
      return req.params.id
    }
    app.get('/:id', stampedeCache({ ttlMs: 60_000, key }), (req, res) => {
      const id: string = req.params.id
      res.send(id)
    })
    app.use(
      ((error, _req, res, _next) => void res.status(418).send(error.code)) as ErrorRequestHandler,
    )
    await using server = await serve(app)
    expect((await rawRequest(server.port, '/5')).body).toBe('5')
    const failed = await rawRequest(server.port, '/bad')
    expect([failed.head[0], failed.body]).toEqual([
      expect.stringContaining('418'),
      'ERR_STAMPEDE_OPTION',
    ])
  })

  test('adds no-transform to the Cache-Control of a layer, so that compression encodes no range', async () => {
    const app = express().use(compression())
    app.use((_req, res, next) => next(void res.set('Cache-Control', 'max-age=5')))
    app.use(
      stampedeCache({ ttlMs: 60_000 }),
      (_req, res) => void res.type('txt').send('x'.repeat(9_000)),
    )
    await using server = await serve(app)
    const ask = (...more: string[]) =>
      rawRequest(server.port, '/', ['Accept-Encoding: gzip', ...more])
    expect(fieldOf(await ask(), 'content-encoding')).toEqual(['gzip'])
    const cut = await ask('Range: bytes=0-4999')
    expect(fieldOf(cut, 'content-encoding')).toEqual([])
    expect(fieldOf(cut, 'cache-control')).toEqual(['max-age=5, no-transform'])
    expect(cut.body).toHaveLength(5_000)
  })

  test('calls `tags` with res.locals of the handler, also in a background refresh', async () => {
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

  test('purges a path on the host that X-Forwarded-Host of a trusted proxy names', async () => {
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

  test('lets an outer compression middleware encode one shared response for each client', async () => {
    const source = new PassThrough()
    let runs = 0
    const app = express().use(compression(), stampedeCache({ ttlMs: 60_000 }))
    app.get('/', (_req, res) => {
      runs += 1
      source.pipe(res.type('txt'))
    })
    await using server = await serve(app)
    const ask = (coding: string) =>
      fetch(`http://127.0.0.1:${server.port}/`, { headers: { 'Accept-Encoding': coding } })
    const all = [ask('gzip'), ask('gzip'), ask('identity')].map(async (asked) => {
      const response = await asked
      return [response.headers.get('content-encoding'), await response.text()]
    })
    await expect.poll(() => runs).toBe(1)
    source.write('one '.repeat(1_000))
    await new Promise((resolve) => setTimeout(resolve, 50))
    source.end('two')
    const text = `${'one '.repeat(1_000)}two`
    expect(await Promise.all(all)).toEqual([
      ['gzip', text],
      ['gzip', text],
      [null, text],
    ])
    expect(runs).toBe(1)
  })
})
