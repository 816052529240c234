// The option `audit: true` warns of each input that a handler reads and the key does not cover, on
// every framework, and of no other: of the request, and of layers in front of the cache, such as a
// session or the user of a login.

import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { text } from 'node:stream/consumers'
import { types } from 'node:util'
import { createAdaptorServer } from '@hono/node-server'
import { createStampede, type Stampede } from '@stampede/core'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as fastifyCache } from '@stampede/fastify'
import { stampedeCache as honoCache } from '@stampede/hono'
import { stampedeCache as koaCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { serveHttp2 } from '../../packages/node-http/src/testing/raw-client.ts'
import { listenOn, type RunningApp } from '../harness/apps.ts'
import { ask } from '../harness/load.ts'

const require = createRequire(import.meta.url)

/** The objects of a framework, by their usual names. */
// biome-ignore lint/suspicious/noExplicitAny: objects of five frameworks
type Natives = any
type Layer = (natives: Natives) => void
type App = (options: object, layer: Layer, handler: Layer) => Promise<RunningApp>

const expressApp =
  (name: string): App =>
  (options, layer, handler) => {
    const app = require(name)()
    app.use((req: object, res: object, next: () => void) => {
      layer({ req, res })
      next()
    })
    app.use(expressCache({ ttlMs: 60_000, audit: true, ...options }))
    // biome-ignore lint/suspicious/noExplicitAny: two majors of one framework
    app.use((req: any, res: any) => {
      const natives: Natives = { req, res }
      handler(natives)
      res.json({ hello: natives.hello ?? 'you' })
    })
    return listenOn(createServer(app))
  }

const koaApp =
  (name: string): App =>
  (options, layer, handler) => {
    const Koa = require(name)
    const app = new Koa()
    app.use(async (ctx: Natives, next: () => Promise<void>) => {
      layer({ ctx, req: ctx.req })
      await next()
      // A logger in front reads the user after the handler.
      void [ctx.state.user?.name, ctx.user?.name, ctx.session?.user, ctx.req.user?.name]
    })
    app.use(koaCache({ ttlMs: 60_000, audit: true, ...options }))
    app.use((ctx: Natives) => {
      const natives: Natives = { ctx, req: ctx.req }
      handler(natives)
      ctx.body = { hello: natives.hello ?? 'you' }
    })
    return listenOn(createServer(app.callback()))
  }

const fastifyApp: App = async (options, layer, handler) => {
  const app = fastify()
  for (const name of ['session', 'user', 'cookies']) app.decorateRequest(name)
  app.addHook('onRequest', (request, _reply, done) => {
    layer({ request, req: request.raw })
    done()
  })
  app.register(fastifyCache({ ttlMs: 60_000, audit: true, ...options }))
  app.get('*', async (request) => {
    handler({ request, req: request.raw })
    return { hello: 'you' }
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return { url, [Symbol.asyncDispose]: () => app.close() }
}

const honoApp: App = (options, layer, handler) => {
  const app = new Hono<{ Variables: { user: { name: string } } }>()
  app.use(async (c, next) => {
    layer({ c })
    await next()
    void c.get('user')
  })
  app.use(honoCache({ ttlMs: 60_000, audit: true, ...options }))
  app.get('*', (c) => {
    handler({ c })
    return c.json({ hello: 'you' })
  })
  return listenOn(createAdaptorServer(app) as ReturnType<typeof createServer>)
}

const front: App = (options, layer, handler) => {
  const inner = stampedeFront(
    (req, res) => {
      handler({ req, res })
      res.end('hello you')
    },
    { ttlMs: 60_000, audit: true, ...options },
  )
  return listenOn(
    createServer((req, res) => {
      layer({ req, res })
      inner(req, res)
    }),
  )
}

const user = { name: 'ann' }
class Session {
  readonly cookie = { maxAge: 1 }
  readonly user = 'ann'
  save(): string {
    return this.user
  }
  get(name: 'user'): string {
    return this[name]
  }
}

type Source = readonly [read: string, put: Layer, read: Layer]
const ofNode: readonly Source[] = [
  ['req.session.user', ({ req }) => (req.session = new Session()), ({ req }) => req.session.user],
  ['req.user', ({ req }) => (req.user = user), ({ req }) => !req.user],
  ['req.user', ({ req }) => (req.user = user), ({ req }) => req.user.name],
  ['req.auth', ({ req }) => (req.auth = { sub: 7 }), ({ req }) => ({ ...req.auth })],
  ['req.account', ({ req }) => (req.account = 'acme'), ({ req }) => req.account],
  [
    'req.tenant',
    ({ req }) => Object.defineProperty(req, 'tenant', { value: user, configurable: true }),
    ({ req }) => req.tenant.name,
  ],
  ['req.isStaff', ({ req }) => (req.isStaff = () => true), ({ req }) => req.isStaff()],
  ['req.rawHeaders', () => {}, ({ req }) => req.rawHeaders.includes('Cookie')],
]
const ofExpress: readonly Source[] = [
  ...ofNode,
  ['res.locals.user', ({ res }) => (res.locals.user = user), ({ res }) => res.locals.user],
]
const ofKoa: readonly Source[] = [
  ['ctx.state.user', ({ ctx }) => (ctx.state.user = user), ({ ctx }) => ctx.state.user],
  ['ctx.session.user', ({ ctx }) => (ctx.session = new Session()), ({ ctx }) => ctx.session.user],
  ['ctx.user', ({ ctx }) => (ctx.user = user), ({ ctx }) => ctx.user.name],
  ...ofNode.filter(([read]) => /user|raw/.test(read)),
]
const ofFastify: readonly Source[] = [
  [
    'request.session.user',
    ({ request }) => (request.session = new Session()),
    ({ request }) => request.session.user,
  ],
  [
    'request.session.user',
    ({ request }) => (request.session = new Session()),
    ({ request }) => request.session.get('user'),
  ],
  ['request.user', ({ request }) => (request.user = user), ({ request }) => request.user === null],
  ['request.plan', ({ request }) => (request.plan = 'a'), ({ request }) => request.plan],
  ...ofNode.filter(([read]) => /account|raw/.test(read)),
]
const ofHono: readonly Source[] = [
  ["c.get('user')", ({ c }) => c.set('user', user), ({ c }) => c.get('user').name],
  ["c.get('user')", ({ c }) => c.set('user', user), ({ c }) => c.var.user.name],
]

class Owner {
  readonly #name = 'ann'
  isSame(other: Owner): boolean {
    return other.#name === this.#name
  }
}
/** Objects of layers that a view of them would not equal, and an expression of a handler. */
const exotic: ReadonlyArray<
  readonly [what: string, value: object, use: (value: Natives) => unknown]
> = [
  ['a Date', new Date(5), (date) => [10 - date, `${date}`]],
  ['a Set', new Set(['a']), (set) => [...set]],
  ['a Map', new Map([['a', 1]]), (map) => [...map, map.size]],
  ['a URL', new URL('http://a.test/b'), (url) => [`${url}`, url.host]],
  ['a URLSearchParams', new URLSearchParams('a=1'), (query) => [...query, `${query}`]],
  ['a boxed number', Object(4), (number) => number + 1],
  ['an Error', new Error('late'), (error) => [types.isNativeError(error), `${error}`]],
  ['a RegExp', /a/, (pattern) => 'cat'.replace(pattern, 'o')],
  ['an ArrayBuffer', new ArrayBuffer(3), (buffer) => new Uint8Array(buffer).length],
  ['an object with private fields', new Owner(), (owner) => owner.isSame(owner)],
  ['a frozen object', Object.freeze({ can: () => true }), (rights) => rights.can()],
  ['a plain object', { a: 1 }, (plain) => structuredClone(plain)],
  ['a class', Owner, (Class) => new Class() instanceof Class],
]

let warnings: string[]
const listen = (warning: Error & { code?: string }) => {
  if (warning.code === 'STAMPEDE_AUDIT') warnings.push(warning.message)
}
beforeEach(() => {
  warnings = []
  process.on('warning', listen)
})
afterEach(() => void process.off('warning', listen))

let paths = 0
/** The parts of the request in the warnings. */
async function readsOf(
  app: App,
  options: object,
  layer: Layer,
  handler: Layer,
  cookie = 'sid=ann; theme=dark',
): Promise<string[]> {
  await using running = await app({ cookies: 'ignore', ...options }, layer, handler)
  paths += 1
  warnings = []
  const { status } = await ask(`${running.url}/layers-${paths}`, { headers: { cookie } })
  expect(status).toBe(200)
  await new Promise((resolve) => setImmediate(resolve))
  return warnings.map((text) => text.replace(`GET /layers-${paths}: the handler read `, ''))
}

describe.each([
  ['Express 5', expressApp('express'), ofExpress],
  ['Express 4', expressApp('express4'), ofExpress],
  ['Koa 3', koaApp('koa'), ofKoa],
  ['Koa 2', koaApp('koa2'), ofKoa],
  ['Fastify 5', fastifyApp, ofFastify],
  ['Hono 4', honoApp, ofHono],
  ['a front', front, ofNode],
] as const)('the option audit on %s, behind a layer', (_name, app, sources) => {
  it.each(sources)('names %s if the handler reads it', async (path, put, read) => {
    const text = `${path}, which is not in the key; use identity, or bypass`
    expect(await readsOf(app, {}, put, read)).toEqual([text])
    const keyed = { cookies: { key: ['theme'] } }
    expect(await readsOf(app, keyed, put, read)).toEqual([text])
  })

  it.each(sources)(
    'is silent about %s with identity, without a read, or if audit is off',
    async (path, put, read) => {
      expect(await readsOf(app, { identity: () => 'ann' }, put, read)).toEqual([])
      expect(await readsOf(app, {}, put, () => {})).toEqual([])
      expect(await readsOf(app, { audit: false }, put, read)).toEqual([])
      // All cookies of the request are in the key, so a session of one of them is, too.
      const keyed = { cookies: { key: ['sid', 'theme'] } }
      if (path !== 'req.rawHeaders') expect(await readsOf(app, keyed, put, read)).toEqual([])
    },
  )

  it('is silent about what the handler itself has set before', async () => {
    const set: Layer = ({ req, res, ctx, request, c }) => {
      c?.set('user', user)
      void [c?.get('user'), c?.var.user]
      const holder = ctx?.state ?? res?.locals ?? request ?? req ?? {}
      holder.user = user
      void [holder.user.name, ctx?.state.user, res?.locals?.user]
    }
    const put: Layer = (natives) => sources[0]?.[1](natives)
    expect(await readsOf(app, {}, put, set)).toEqual([])
  })
})

describe.each([
  ['Express 5', expressApp('express'), 'req'],
  ['Express 4', expressApp('express4'), 'req'],
  ['Koa 3', koaApp('koa'), 'ctx'],
  ['Koa 2', koaApp('koa2'), 'ctx'],
  ['Fastify 5', fastifyApp, 'request'],
  ['Hono 4', honoApp, 'c'],
  ['a front', front, 'req'],
] as const)('the option audit on %s', (_name, app, label) => {
  const get = (natives: Natives) => (label === 'c' ? natives.c.get('thing') : natives[label].thing)
  const set = (natives: Natives, value: unknown) =>
    label === 'c' ? natives.c.set('thing', value) : Object.assign(natives[label], { thing: value })

  it.each(exotic)('gives a handler %s of a layer itself', async (_what, value, use) => {
    let got: unknown
    const read: Layer = (natives) => {
      got = get(natives)
      expect(use(got)).toEqual(use(value))
    }
    expect(await readsOf(app, {}, (natives) => set(natives, value), read)).toHaveLength(1)
    expect(got).toBe(value)
  })

  it.runIf(label !== 'c')('changes no property that cannot be defined again', async () => {
    const fixed: Layer = (natives) => {
      Object.defineProperty(natives[label], 'plan', { value: 'a', enumerable: true })
    }
    const holder: Layer = (natives) => {
      natives[label].session = Object.freeze({ user: 'ann', can: () => true })
    }
    let got: unknown
    const read: Layer = (natives) => {
      got = natives[label].plan
    }
    await readsOf(app, {}, fixed, read)
    expect(got).toBe('a')
    const ask: Layer = (natives) => {
      got = natives[label].session.can()
    }
    await readsOf(app, {}, holder, ask)
    expect(got).toBe(true)
  })

  it.runIf(label !== 'c')('gives a handler functions and classes of a session', async () => {
    const key = Symbol('key')
    const put: Layer = (natives) => {
      const text = Object.assign(() => 'text', { plural: () => 'texts' })
      natives[label].session = { text, Owner, [key]: Owner, constructor: 'ann' }
    }
    let got: unknown
    const read: Layer = ({ [label]: { session } }) => {
      got = [session.text(), session.text.plural(), new session.Owner(), new session[key]()]
    }
    const said = (name: string) =>
      `${label}.session.${name}, which is not in the key; use identity, or bypass`
    expect((await readsOf(app, {}, put, read)).sort()).toEqual([said('Owner'), said('text')])
    expect(got).toEqual(['text', 'texts', expect.any(Owner), expect.any(Owner)])
    const ask: Layer = ({ [label]: { session } }) => session.constructor
    expect(await readsOf(app, {}, put, ask)).toEqual([said('constructor')])
  })

  it.runIf(label !== 'c')('gives a handler a session that is a Map', async () => {
    const put: Layer = (natives) => {
      natives[label].session = new Map([['user', 'ann']])
    }
    let got: unknown
    const read: Layer = ({ [label]: native }) => {
      got = [...native.session, native.session.size]
    }
    await readsOf(app, {}, put, read)
    expect(got).toEqual([['user', 'ann'], 1])
    const ask: Layer = (natives) => natives[label].session.get('user')
    expect(await readsOf(app, {}, put, ask)).toEqual([
      `${label}.session.user, which is not in the key; use identity, or bypass`,
    ])
  })
})

describe('the option audit, with a getter of the app on the prototype of its requests', () => {
  const getter = { configurable: true, get: () => 'ann' }
  it.each<[string, string, () => Promise<RunningApp>]>([
    ['Express 5', 'req.owner', () => withPrototype('express')],
    ['Express 4', 'req.owner', () => withPrototype('express4')],
    ['Koa 3', 'ctx.owner', () => withContext('koa')],
    ['Koa 2', 'ctx.owner', () => withContext('koa2')],
    ['Fastify 5', 'request.owner', () => withDecorator()],
  ])('names it on %s', async (_name, label, start) => {
    const text = `${label}, which is not in the key; use identity, or bypass`
    expect(
      await readsOf(
        start,
        {},
        () => {},
        () => {},
      ),
    ).toEqual([text])
  })

  const options = { ttlMs: 60_000, audit: true, cookies: 'ignore' } as const
  const withPrototype = (name: string) => {
    const app = require(name)()
    Object.defineProperty(app.request, 'owner', getter)
    app.use(expressCache(options))
    app.use((req: Natives, res: Natives) => res.send(req.owner))
    return listenOn(createServer(app))
  }
  const withContext = (name: string) => {
    const app = new (require(name))()
    Object.defineProperty(app.context, 'owner', getter)
    app.use(koaCache(options))
    app.use((ctx: Natives) => {
      ctx.body = ctx.owner
    })
    return listenOn(createServer(app.callback()))
  }
  const withDecorator = async () => {
    const app = fastify()
    app.decorateRequest('owner', { getter: () => 'ann' })
    app.register(fastifyCache(options))
    app.register((inner, _, done) => {
      inner.get('*', (request: Natives) => request.owner)
      done()
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    return { url, [Symbol.asyncDispose]: () => app.close() }
  }
})

describe('the option audit', () => {
  it('is silent about getters of an HTTP/2 request', async () => {
    const app = new Koa()
    app.use(koaCache({ ttlMs: 60_000, audit: true }))
    app.use((ctx: Natives) => {
      ctx.body = [ctx.req.authority, ctx.req.scheme, ctx.req.destroyed].join()
    })
    await using http2 = await serveHttp2(app.callback())
    const { client, port } = http2
    expect(await text(client.request({ ':path': '/h2' }))).toBe(`127.0.0.1:${port},http,false`)
    expect(warnings).toEqual([])
  })

  it('is silent about getters of Fastify with trustProxy', async () => {
    const app = fastify({ trustProxy: true })
    app.register(fastifyCache({ ttlMs: 60_000, audit: true }))
    app.get('*', async ({ hostname, host, protocol, port }) => ({ hostname, host, protocol, port }))
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    expect((await ask(`${url}/proxied`)).status).toBe(200)
    await app.close()
    expect(warnings).toEqual([])
  })
})

describe('the option audit behind a real session', () => {
  type Middleware = (req: Natives, res: Natives, next: () => void) => void
  const wrap =
    (name: string, session: Middleware): App =>
    (options, layer, handler) => {
      const app = require(name)()
      app.use(session)
      app.use((req: Natives, _res: Natives, next: () => void) => {
        layer({ req })
        next()
      })
      app.use(expressCache({ ttlMs: 60_000, audit: true, ...options }))
      app.use((req: Natives, res: Natives) => {
        handler({ req, res })
        res.send('hello')
      })
      return listenOn(createServer(app))
    }
  const koaSession =
    (name: string): App =>
    (options, layer, handler) => {
      const app = new (require(name))()
      app.keys = ['a']
      app.use(require('koa-session').createSession({}, app))
      app.use(async (ctx: Natives, next: () => Promise<void>) => {
        layer({ req: ctx })
        await next()
      })
      app.use(koaCache({ ttlMs: 60_000, audit: true, ...options }))
      app.use((ctx: Natives) => {
        handler({ req: ctx })
        ctx.body = 'hello'
      })
      return listenOn(createServer(app.callback()))
    }
  const expressSession = (saveUninitialized: boolean): Middleware =>
    require('express-session')({
      secret: 'a',
      resave: true,
      saveUninitialized,
      store: new (require('express-session').MemoryStore)(),
    })

  it.each([
    ['express-session on Express 5', wrap('express', expressSession(false)), 'req'],
    ['express-session on Express 4', wrap('express4', expressSession(true)), 'req'],
    [
      'cookie-session on Express 5',
      wrap('express', require('cookie-session')({ keys: ['a'] })),
      'req',
    ],
    ['koa-session on Koa 3', koaSession('koa'), 'ctx'],
    ['koa-session on Koa 2', koaSession('koa2'), 'ctx'],
  ])('names only the member of %s that the handler read', async (_name, app, label) => {
    const login: Layer = ({ req }) => {
      req.session.user = 'ann'
      req.session.visits = 3
    }
    const text = `${label}.session.user, which is not in the key; use identity, or bypass`
    expect(await readsOf(app, {}, login, ({ req }) => req.session.user)).toEqual([text])
    expect(await readsOf(app, {}, login, () => {})).toEqual([])
    expect(
      await readsOf(
        app,
        {},
        () => {},
        ({ req }) => req.session.user,
      ),
    ).toEqual([])
    const touch: Layer = ({ req }) => req.session.touch?.()
    expect(await readsOf(app, {}, login, touch)).toEqual([])
  })
})

describe.each([
  ['Express 5', expressApp('express')],
  ['Koa 2', koaApp('koa2')],
  ['Fastify 5', fastifyApp],
  ['a front', front],
] as const)('the option audit with a keyed cookie on %s', (_name, app) => {
  it('names the Cookie field if it had other cookies, too', async () => {
    const options = { cookies: { key: ['theme'] } }
    const read: Layer = ({ req }) => req.headers.cookie
    expect(await readsOf(app, options, () => {}, read)).toEqual([
      'the request header cookie, which is not in the key; use cookies: { key: [names] }',
    ])
    expect(await readsOf(app, options, () => {}, read, 'theme=dark')).toEqual([])
  })
})

interface Reader {
  header(name: string): unknown
  query(name: string): unknown
  cookie(name: string): unknown
  vary(name: string): void
  /** Sets the body of the response. */
  say(hello: unknown): void
}

/** The names of one task in Express and in Koa. */
function readerOf(natives: Natives): Reader {
  const { req, res = natives.ctx, ctx = req } = natives
  return {
    header: (field) => ctx.get(field),
    query: (field) => ctx.query[field],
    cookie: (field) => (natives.ctx ? ctx.cookies.get(field) : req.cookies[field]),
    vary: (field) => res.vary(field),
    say: (hello) => Object.assign(natives, { hello }),
  }
}

/** Cookies as cookie-parser leaves them. */
const parseCookies: Layer = ({ req, ctx }) => {
  const pairs = (req.headers.cookie ?? '').split('; ').map((pair: string) => pair.split('='))
  if (!ctx) req.cookies = Object.fromEntries(pairs)
}

/** With `refreshed`, the second request gets a stale response, which is refreshed behind it. */
async function warningsOf(
  app: App,
  options: object,
  handler: (read: Reader) => unknown,
  more: Record<string, string> = {},
  refreshed?: Stampede,
) {
  const read: Layer = (natives) => void handler(readerOf(natives))
  await using running = await app(options, parseCookies, read)
  paths += 1
  warnings = []
  const path = `/page-${paths}`
  const headers = { 'x-lang': 'de', accept: 'text/html', cookie: 'theme=dark; visits=3', ...more }
  for (let i = 0; i < 2; i++) {
    const { status } = await ask(`${running.url}${path}?q=1&utm=2`, { headers })
    expect(status).toBe(more.range ? 206 : 200)
    if (i === 0) await refreshed?.purge({ all: true }, { soft: true })
  }
  if (refreshed) await expect.poll(() => refreshed.stats().fills.committed).toBe(2)
  await new Promise((resolve) => setImmediate(resolve))
  return warnings.map((text) => text.replace(path, '/page'))
}

const FREE = { cookies: 'ignore' } as const

describe.each([
  ['Express 5', expressApp('express')],
  ['Express 4', expressApp('express4')],
  ['Koa 3', koaApp('koa')],
  ['Koa 2', koaApp('koa2')],
])('the option audit on %s', (_, app) => {
  it('names once each header that the handler reads and the key lacks, with the remedy', async () => {
    expect(await warningsOf(app, FREE, (read) => void read.header('X-Lang'))).toEqual([
      "GET /page: the handler read the request header x-lang, which is not in the key; use vary: ['x-lang'], or name it in Vary of the response",
    ])
  })

  it('does not warn of a header that is in the key, or in Vary of the response', async () => {
    const vary = { ...FREE, vary: ['X-Lang'] }
    expect(await warningsOf(app, vary, (read) => void read.header('X-Lang'))).toEqual([])
    const varies = (read: Reader) => {
      read.vary('X-Lang')
      read.header('X-Lang')
    }
    expect(await warningsOf(app, FREE, varies)).toEqual([])
  })

  it('names a header that the handler read although the request lacks it', async () => {
    const [only = ''] = await warningsOf(app, FREE, (read) => void read.header('X-Beta'))
    expect(only).toContain('x-beta')
  })

  it('names a query parameter that the key leaves out', async () => {
    const options = { ...FREE, query: { ignore: ['utm'] } }
    expect(await warningsOf(app, options, (read) => void read.query('q'))).toEqual([])
    const [only = ''] = await warningsOf(app, options, (read) => void read.query('utm'))
    expect(only).toContain('the query parameter utm')
  })

  it('names cookies that the handler reads', async () => {
    const told = await warningsOf(app, FREE, (read) => void read.cookie('theme'))
    expect(told).toHaveLength(1)
    expect(told[0]).toMatch(/cookie/)
    const keyed = { cookies: { key: ['theme'] } }
    expect(await warningsOf(app, keyed, (read) => void read.cookie('theme'))).toEqual([])
  })

  it('does not warn if identity puts the caller in the key, or if audit is off', async () => {
    const read = ({ header }: Reader) => void header('X-Lang')
    expect(await warningsOf(app, { ...FREE, identity: () => 'me' }, read)).toEqual([])
    expect(await warningsOf(app, { ...FREE, audit: false }, read)).toEqual([])
  })

  it('does not warn for a handler that reads no input', async () => {
    expect(await warningsOf(app, FREE, () => {})).toEqual([])
  })

  it('warns of the same inputs if the request has a condition, which is hidden from the handler', async () => {
    const condition = { 'if-none-match': '"other"', range: 'bytes=0-' }
    expect(await warningsOf(app, FREE, () => {}, condition)).toEqual([])
    const read = ({ header }: Reader) => void header('X-Lang')
    expect(await warningsOf(app, FREE, read, condition)).toEqual([
      expect.stringContaining('the request header x-lang'),
    ])
  })

  it('warns of what a background refresh reads, whose response all clients get', async () => {
    const stampede = createStampede()
    const options = { ...FREE, stampede, staleWhileRevalidateMs: 60_000, keepMs: 0 }
    let runs = 0
    const read = ({ header, say }: Reader) => {
      runs += 1
      if (runs > 1) header('X-Lang')
      // A new body, because Express would respond 304 to the condition of the refresh.
      say(runs)
    }
    expect(await warningsOf(app, options, read, {}, stampede)).toEqual([
      expect.stringContaining('the request header x-lang'),
    ])
    expect(runs).toBe(2)
    await stampede.close()
  })
})
