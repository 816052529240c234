// Koa with one more middleware before or after the cache.
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'
import Koa3, { type Context, type Middleware } from 'koa'
import Koa2 from 'koa2'
import { expect, it } from 'vitest'
import { statusOf, type Whole, whole } from '../../../packages/testkit/src/cache-contract/bench.ts'
import { listen, type RunningApp } from '../../harness/apps.ts'
import { ask } from '../../harness/load.ts'
import {
  expectConditionsAnswered,
  expectToldApart,
  layerCases,
  type Order,
  PAGE,
  shown,
} from './visitors.ts'

const require = createRequire(import.meta.url)
type Make = (app: Koa3) => Middleware[]
const load = <T>(name: string): T => {
  const loaded = require(name)
  return loaded.default ?? loaded
}
const compress = load<(options: object) => Middleware>('koa-compress')
const session = load<(options: object, app: Koa3) => Middleware>('koa-session')
const etag = load<() => Middleware>('@koa/etag')
const conditionalGet = load<() => Middleware>('koa-conditional-get')

let visits = 0
const LAYERS: ReadonlyArray<readonly [name: string, make: Make, isPersonal: boolean]> = [
  ['koa-compress', () => [compress({ threshold: 0 })], false],
  [
    'koa-session',
    (app) => {
      app.keys = ['k']
      const count: Middleware = (ctx, next) => {
        ctx.session.seen ??= ++visits
        return next()
      }
      return [session({}, app), count]
    },
    true,
  ],
  [
    'a cookie of its own',
    () => [
      (ctx, next) => {
        if (!ctx.cookies.get('visitor')) ctx.cookies.set('visitor', String(++visits))
        return next()
      },
    ],
    true,
  ],
  ['@koa/etag', () => [etag()], false],
  ['koa-conditional-get', () => [conditionalGet()], false],
]

export function koaOrders(version: string, Koa: typeof Koa3): void {
  const isKoa3 = version === '3'

  function start(order: Order, make: Make, options: object): Promise<RunningApp> {
    const app = new Koa()
    app.silent = true
    const layers = make(app)
    if (order === 'before') for (const layer of layers) app.use(layer)
    const all = { ttlMs: 600_000, ...options }
    if (order === 'before' || order === 'after') app.use(stampedeCache(all))
    if (order !== 'before') for (const layer of layers) app.use(layer)
    app.use((ctx) => {
      ctx.type = 'html'
      // With a validator of its own, a response gets no ETag from the cache.
      ctx.lastModified = new Date(0)
      ctx.body = ctx.path === '/written' ? Readable.from([Buffer.from(PAGE)]) : PAGE
    })
    const listener = app.callback()
    return listen(order === 'in an app behind' ? stampedeFront(listener, all) : listener)
  }

  layerCases(LAYERS, start)

  it.each([
    ['both before', () => [conditionalGet(), etag()], []],
    ['both after', () => [], [conditionalGet(), etag()]],
    ['koa-conditional-get before, @koa/etag after', () => [conditionalGet()], [etag()]],
  ] as const)(
    'responds 304 by @koa/etag and koa-conditional-get, %s the cache, on a miss and on hits',
    async (_, before, after) => {
      const app = new Koa()
      for (const layer of before()) app.use(layer)
      app.use(stampedeCache({ ttlMs: 60_000 }))
      for (const layer of after) app.use(layer)
      app.use((ctx) => (ctx.body = PAGE))
      await using running = await listen(app.callback())
      await expectConditionsAnswered(running.url)
    },
  )

  it.each([
    ['inside', []],
    ['inside and outside', [conditionalGet(), etag()]],
  ])(
    'sends the full page when its refresh gets 304 from @koa/etag and koa-conditional-get %s the cache',
    async (_, before) => {
      const clock = new ManualClock()
      const stampede = createStampede({ clock })
      const app = new Koa()
      for (const layer of before) app.use(layer)
      app.use(stampedeCache({ stampede, ttlMs: 10_000 }))
      for (const layer of [conditionalGet(), etag()]) app.use(layer)
      app.use((ctx) => (ctx.body = PAGE))
      await using running = await listen(app.callback())
      const first = await ask(`${running.url}/`)
      await clock.advance(11_000)
      const second = await ask(`${running.url}/`)
      expect([second.status, second.body]).toEqual([200, PAGE])
      expect(second.headers.etag).toBe(first.headers.etag)
      expect(second.headers['content-type']).toBe(first.headers['content-type'])
      expect(statusOf(second)).toBe('Stampede; fwd=stale; fwd-status=304')
      await clock.advance(11_000)
      const headers = { 'if-none-match': String(first.headers.etag) }
      expect((await ask(`${running.url}/`, { headers })).status).toBe(304)
      await expect.poll(async () => statusOf(await ask(`${running.url}/`))).toContain('; hit')
    },
  )

  const of = (make: () => unknown) => (ctx: Context) => (ctx.body = make())
  const BODIES: Readonly<Record<string, (ctx: Context) => unknown>> = {
    buffer: of(() => Buffer.from([0, 255])),
    string: of(() => 'héllo'),
    html: of(() => '<p>hello'),
    'empty-string': of(() => ''),
    object: of(() => ({ a: 1 })),
    array: of(() => [1, 2]),
    number: of(() => 7),
    boolean: of(() => true),
    'node-stream': of(() => Readable.from([Buffer.from('héllo')])),
    'stream-with-length': (ctx) => {
      ctx.type = 'text/csv'
      ctx.body = Readable.from(['a,b'])
      ctx.length = 3
    },
    'stream-without-type': (ctx) => {
      ctx.body = Readable.from(['a'])
      ctx.remove('Content-Type')
    },
    'status-only': (ctx) => (ctx.status = 200),
    null: (ctx) => {
      ctx.body = null
      ctx.status = 200
    },
    redirect: (ctx) => Object.assign(ctx, { status: 301 }).redirect('/elsewhere'),
    ...(isKoa3 && {
      'web-stream': of(() => new Blob(['héllo']).stream()),
      blob: of(() => new Blob(['héllo'], { type: 'text/x-blob' })),
      response: of(() => new Response('héllo', { status: 203, headers: { 'X-Own': 'yes' } })),
    }),
  }
  it('sends on a miss and on a hit what Koa alone sends, for every kind of body', async () => {
    const handler = (ctx: Context) => void BODIES[ctx.path.slice(1)]?.(ctx)
    const app = new Koa().use(stampedeCache({ ttlMs: 60_000 })).use(handler)
    await using running = await listen(app.callback())
    await using bare = await listen(new Koa().use(handler).callback())
    for (const path of Object.keys(BODIES)) {
      const alone = await whole(`${bare.url}/${path}`)
      for (const fate of ['stored', '; hit']) {
        const answer = await whole(`${running.url}/${path}`)
        expect(String(answer.lines['cache-status']), path).toContain(fate)
        expect(withoutEtag(answer), path).toEqual(withoutEtag(alone))
        expect(answer.body.equals(alone.body), path).toBe(true)
      }
      const head = await whole(`${running.url}/${path}`, { method: 'HEAD' })
      expect(String(head.lines['cache-status']), path).toContain('; hit')
      expect(head.lines['content-length'], path).toEqual([String(alone.body.length)])
    }
  })

  it('does not store the 404 of a request that no middleware handles', async () => {
    const app = new Koa().use(stampedeCache({ ttlMs: 60_000 })).use((_ctx, next) => next())
    await using running = await listen(app.callback())
    for (const _round of [1, 2]) {
      const answer = await ask(running.url)
      expect(answer.status).toBe(404)
      expect(statusOf(answer)).not.toMatch(/stored|; hit/)
    }
  })

  it('does not store an empty 204', async () => {
    const app = new Koa().use(stampedeCache({ ttlMs: 60_000 })).use((ctx) => (ctx.body = null))
    await using running = await listen(app.callback())
    for (const _round of [1, 2]) {
      const answer = await ask(running.url)
      expect(answer.status).toBe(204)
      expect(statusOf(answer)).not.toMatch(/stored|; hit/)
    }
  })

  it.each<[string, (ctx: Context) => unknown]>([
    [
      'ctx.respond = false',
      (ctx) => {
        ctx.respond = false
        ctx.res.writeHead(200, { 'X-Own': 'yes' }).end('by hand')
      },
    ],
    ['ctx.res.end()', (ctx) => ctx.res.setHeader('X-Own', 'yes').end('by hand')],
  ])('sends a response written by %s unchanged, and does not store it', async (_, handler) => {
    let runs = 0
    const count = (ctx: Context) => {
      runs += 1
      ctx.status = 200
      return void handler(ctx)
    }
    await using cached = await listen(
      new Koa()
        .use(stampedeCache({ ttlMs: 60_000 }))
        .use(count)
        .callback(),
    )
    await using bare = await listen(new Koa().use(count).callback())
    const expected = await whole(bare.url)
    for (const round of [2, 3]) {
      const answer = await whole(cached.url)
      expect(shown(answer)).toEqual(shown(expected))
      expect([answer.body.toString(), runs]).toEqual(['by hand', round])
    }
  })

  it('sends a thrown error with its status and headers, and does not store it', async () => {
    const failing = (ctx: Context) => {
      ctx.set('X-Set', 'before')
      ctx.throw(503, 'not now', { headers: { 'Retry-After': '7' }, expose: true })
    }
    const quiet = () => Object.assign(new Koa(), { silent: true })
    const stampede = { ttlMs: 60_000 }
    await using cached = await listen(quiet().use(stampedeCache(stampede)).use(failing).callback())
    await using bare = await listen(quiet().use(failing).callback())
    const [expected, answer] = [await whole(bare.url), await whole(cached.url)]
    expect(shown(answer)).toEqual(shown(expected))
    expect(answer.body.equals(expected.body)).toBe(true)
    expect(String(answer.lines['cache-status'])).not.toContain('stored')
  })

  it('distinguishes mounted apps and nested routers by their mount path', async () => {
    const mount = load<(prefix: string, app: Middleware) => Middleware>('koa-mount')
    const Router = load<new (options?: object) => MiniRouter>('@koa/router')
    let runs = 0
    const app = new Koa()
    for (const prefix of ['/one', '/two']) {
      const inner = new Router({ prefix: '/items' })
      inner.get('/:id', stampedeCache({ ttlMs: 60_000 }), (ctx) => {
        // The functions that name an entry, such as `key` and `tags`, know the matched route.
        ctx.body = `${prefix} ${ctx.path} ${String(ctx._matchedRoute)} ${++runs}`
      })
      const outer = new Router().use(inner.routes())
      app.use(mount(prefix, outer.routes()))
    }
    await using running = await listen(app.callback())
    for (const _round of [1, 2]) {
      expect((await ask(`${running.url}/one/items/7`)).body).toBe('/one /items/7 /items/:id 1')
      expect((await ask(`${running.url}/two/items/7`)).body).toBe('/two /items/7 /items/:id 2')
    }
  })

  it('distinguishes requests whose URL an earlier layer has rewritten', async () => {
    const mount = load<(prefix: string, app: Middleware) => Middleware>('koa-mount')
    for (const isMounted of [false, true]) {
      const app = new Koa()
      app.use((ctx, next) => {
        if (ctx.get('x-lang')) ctx.url = `/${ctx.get('x-lang')}${ctx.url}`
        return next()
      })
      const cache = stampedeCache({ ttlMs: 60_000 })
      for (const lang of isMounted ? ['/de', '/en'] : []) app.use(mount(lang, cache))
      app.use(cache)
      app.use((ctx) => (ctx.body = `for ${ctx.url}`))
      await using running = await listen(app.callback())
      await expectToldApart(running.url)
    }
  })

  it('passes the matched route to the key function', async () => {
    const Router = load<new (options?: object) => MiniRouter>('@koa/router')
    const named: string[] = []
    const router = new Router()
    const key = (ctx: Context) => {
      named.push(String(ctx._matchedRoute))
      return ctx.originalUrl
    }
    router.get('/items/:id', stampedeCache({ ttlMs: 60_000, key }), (ctx) => {
      ctx.body = 'item'
    })
    await using running = await listen(new Koa().use(router.routes()).callback())
    await ask(`${running.url}/items/7`)
    expect(named).toEqual(['/items/:id'])
  })
}

/** The cache adds an ETag to a response without one. */
function withoutEtag({ status, lines }: Whole): object {
  const { etag, ...rest } = lines
  return shown({ status, lines: rest } as Whole)
}

interface MiniRouter {
  get(path: string, ...layers: Array<(ctx: Context, next: () => Promise<unknown>) => unknown>): this
  use(layer: Middleware): this
  routes(): Middleware
}

export const KOA: ReadonlyArray<readonly [string, typeof Koa3]> = [
  ['3', Koa3],
  ['2', Koa2],
]
