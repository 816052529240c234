// Express with one more middleware before or after the cache.
import { createRequire } from 'node:module'
import { gunzipSync } from 'node:zlib'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/express'
import { stampedeFront } from '@stampede/node-http'
import type { Request, RequestHandler, Response, Router } from 'express'
import express5 from 'express'
import express4 from 'express4'
import { expect, it } from 'vitest'
import { statusOf, whole } from '../../../packages/testkit/src/cache-contract/bench.ts'
import { listen, type RunningApp } from '../../harness/apps.ts'
import { ask } from '../../harness/load.ts'
import {
  expectConditionsAnswered,
  expectToldApart,
  layerCases,
  type Order,
  PAGE,
} from './visitors.ts'

const require = createRequire(import.meta.url)
type Make = () => RequestHandler | RequestHandler[]
const { compression, session, cookieSession, cookieParser } = {
  compression: require('compression') as (options: object) => RequestHandler,
  session: require('express-session') as (options: object) => RequestHandler,
  cookieSession: require('cookie-session') as (options: object) => RequestHandler,
  cookieParser: require('cookie-parser') as () => RequestHandler,
}

let visits = 0
/** Counts visits in any kind of session, so that the session has something to store. */
const count: RequestHandler = (req, _res, next) => {
  const kept: { session?: { id?: unknown; seen?: number } } = Object(req)
  // A cookie-session stores its content in the cookie: two sessions with equal content have equal
  // cookies.
  if (kept.session) kept.session.seen ??= ++visits
  next()
}

const LAYERS: ReadonlyArray<readonly [name: string, make: Make, isPersonal: boolean]> = [
  ['compression', () => compression({ threshold: 0 }), false],
  [
    'express-session',
    () => [session({ secret: 's', resave: false, saveUninitialized: true }), count],
    true,
  ],
  ['cookie-session', () => [cookieSession({ keys: ['k'] }), count], true],
  [
    'a cookie of its own',
    () => [
      cookieParser(),
      (req: Request, res: Response, next) => {
        if (!req.cookies.visitor) res.cookie('visitor', String(++visits))
        next()
      },
    ],
    true,
  ],
]

export function expressOrders(_name: string, express: typeof express5): void {
  const page = (_req: Request, res: Response) => void res.send(PAGE)

  function start(order: Order, make: Make, options: object): Promise<RunningApp> {
    const app = express().set('env', 'test')
    if (order === 'before') app.use(make())
    const all = { ttlMs: 600_000, ...options }
    if (order === 'before' || order === 'after') app.use(stampedeCache(all))
    if (order !== 'before') app.use(make())
    app.get(['/page', '/other'], page)
    app.get('/written', (_req, res) => {
      // With a validator of its own, a response gets no ETag from the cache.
      res.type('html').set('Last-Modified', new Date(0).toUTCString()).write(PAGE.slice(0, 100))
      res.end(PAGE.slice(100))
    })
    return listen(order === 'in an app behind' ? stampedeFront(app, all) : app)
  }

  layerCases(LAYERS, start)

  it.each(['weak', 'strong'])(
    'responds 304 by a %s ETag of the app, on a miss and on hits',
    async (etag) => {
      const app = express()
        .set('etag', etag)
        .use(stampedeCache({ ttlMs: 60_000 }))
      app.get(['/page', '/other'], page)
      await using running = await listen(app)
      await expectConditionsAnswered(running.url)
    },
  )

  it.each([
    ['json', (res: Response) => void res.json({ a: 1 })],
    ['send', (res: Response) => void res.send(PAGE)],
    ['sendFile', (res: Response) => res.sendFile('package.json', { root: process.cwd() })],
  ])(
    'sends 304 for an unchanged response of %s, because the app sets its ETag itself',
    async (_, answer) => {
      const clock = new ManualClock()
      const stampede = createStampede({ clock })
      const app = express().use(stampedeCache({ stampede, ttlMs: 10_000, overrideHeaders: true }))
      app.get('/a', (_req: Request, res: Response) => answer(res))
      await using running = await listen(app)
      const first = await ask(`${running.url}/a`)
      await expect.poll(() => stampede.stats().fills.committed).toBe(1)
      await clock.advance(11_000)
      const second = await ask(`${running.url}/a`)
      expect([second.status, second.body]).toEqual([200, first.body])
      expect(second.headers['content-type']).toBe(first.headers['content-type'])
      expect(statusOf(second)).toBe('Stampede; fwd=stale; fwd-status=304')
      await expect.poll(() => stampede.stats().fills.committed).toBe(2)
      expect(statusOf(await ask(`${running.url}/a`))).toContain('; hit')
    },
  )

  it('distinguishes requests whose URL an earlier layer has rewritten', async () => {
    for (const isMounted of [false, true]) {
      const app = express()
      app.use((req, _res, next) => {
        if (req.get('x-lang')) req.url = `/${req.get('x-lang')}${req.url}`
        next()
      })
      const cache = stampedeCache({ ttlMs: 60_000 })
      const answer: RequestHandler = (req, res) => void res.send(`for ${req.baseUrl}${req.url}`)
      for (const lang of isMounted ? ['/de', '/en'] : []) app.use(lang, cache, answer)
      app.use(cache, answer)
      await using running = await listen(app)
      await expectToldApart(running.url)
    }
  })

  it('does not store the 404 of a request that no route handles', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000 }))
    const router: Router = express.Router()
    app.get('/route', (_req, _res, next) => next('route'))
    router.get('/router', (_req, _res, next) => next('router'))
    app.use(router)
    await using running = await listen(app)
    for (const path of ['/route', '/router', '/nothing']) {
      for (const _round of [1, 2]) {
        const answer = await ask(running.url + path)
        expect(answer.status).toBe(404)
        expect(statusOf(answer)).not.toMatch(/stored|; hit/)
      }
    }
  })

  it('stores the response of the next route when a route passes on', async () => {
    let runs = 0
    const app = express().use('/in', stampedeCache({ ttlMs: 60_000 }))
    const router: Router = express.Router()
    router.get('/a', (_req, _res, next) => next('route'), page)
    router.get('/a', (_req, _res, next) => next('router'))
    app.use('/in', router)
    app.get('/in/a', (_req, res) => void res.send(`run ${++runs}`))
    await using running = await listen(app)
    for (const _round of [1, 2]) expect((await ask(`${running.url}/in/a`)).body).toBe('run 1')
  })

  it('stores one response for each JSONP callback', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000 }))
    app.get('/a', (_req, res) => void res.jsonp({ a: 1 }))
    await using running = await listen(app)
    for (const fate of ['stored', 'hit']) {
      for (const callback of ['one', 'two']) {
        const answer = await ask(`${running.url}/a?callback=${callback}`)
        expect(answer.body).toContain(`${callback}({"a":1})`)
        expect(statusOf(answer)).toContain(fate)
      }
    }
  })

  it('stores a full file if the first request has a range', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000 }))
    app.get('/a', (_req, res) =>
      res.sendFile('package.json', { root: process.cwd(), maxAge: 60_000 }),
    )
    await using running = await listen(app)
    const first = await whole(`${running.url}/a`, { headers: { range: 'bytes=0-9' } })
    const second = await whole(`${running.url}/a`)
    expect([first.status, second.status]).toEqual([206, 200])
    expect(first.body.equals(second.body.subarray(0, 10))).toBe(true)
    expect(first.lines['content-range']).toEqual([`bytes 0-9/${second.body.length}`])
    expect(JSON.parse(second.body.toString())).toMatchObject({ name: 'stampede' })
  })

  it.each([
    ['before', [compression({ threshold: 0 })], []],
    ['after', [], [compression({ threshold: 0 })]],
  ] as const)(
    'sends a range with compression %s the cache, and stores the full page compressed',
    async (where, outer, inner) => {
      const app = express()
      for (const layer of outer) app.use(layer)
      app.use(stampedeCache({ ttlMs: 60_000 }))
      for (const layer of inner) app.use(layer)
      const text = 'x'.repeat(5_000)
      app.get('/a', (_req, res) => void res.type('text').send(text))
      await using running = await listen(app)
      const headers = { 'accept-encoding': 'gzip' }
      const first = await whole(`${running.url}/a`, { headers: { ...headers, range: 'bytes=1-3' } })
      const coded = where === 'before' ? undefined : ['gzip']
      // With compression behind the cache, the length is not known before the end. So no 206 is
      // possible.
      expect([first.status, first.lines['content-encoding']]).toEqual([coded ? 200 : 206, coded])
      if (!coded) expect(first.body.toString()).toBe('xxx')
      const second = await whole(`${running.url}/a`, { headers })
      expect([second.status, second.lines['content-encoding']]).toEqual([200, ['gzip']])
      expect(gunzipSync(second.body).toString()).toBe(text)
    },
  )

  it('serves ranges of a file above maxBodyBytes, and closes the file', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000, maxBodyBytes: 100 }))
    app.get('/a', (_req, res) => res.sendFile('package-lock.json', { root: process.cwd() }))
    await using running = await listen(app)
    const page = await whole(`${running.url}/a`)
    for (const start of [0, 70_000, page.body.length - 5]) {
      const range = `bytes=${start}-${start + 9}`
      const part = await whole(`${running.url}/a?${start}`, { headers: { range } })
      expect(part.status).toBe(206)
      expect(part.body.equals(page.body.subarray(start, start + 10))).toBe(true)
    }
  })
}

export const EXPRESS: ReadonlyArray<readonly [string, typeof express5]> = [
  ['5', express5],
  ['4', express4],
]
