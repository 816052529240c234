// A JSON body, as layers in front of the cache and the client see it. If the cache is the first
// middleware, a hit sets no ctx.body.

import { createRequire } from 'node:module'
import { createStampede } from '@stampede/core'
import type Koa from 'koa'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]
const compress: (options: { threshold: number }) => Koa.Middleware = require('koa-compress')
const conditional: () => Koa.Middleware = require('koa-conditional-get')
const etag: { default?: () => Koa.Middleware } & (() => Koa.Middleware) = require('@koa/etag')

const VALUE = { a: 1, list: [1, { b: 'é' }] }
const TEXT = JSON.stringify(VALUE)
const GET = { method: 'GET' }

afterEach(() => {
  vi.restoreAllMocks()
})

describe.each(VERSIONS)('a JSON body on %s', (_, Application) => {
  async function start(
    layers: readonly Koa.Middleware[],
    make: (ctx: Koa.Context) => unknown = () => structuredClone(VALUE),
    prepare: (app: Koa) => void = () => {},
  ) {
    const stampede = createStampede({})
    const app = new Application()
    app.silent = true
    prepare(app)
    for (const layer of layers) app.use(layer)
    app.use(stampedeCache({ stampede, ttlMs: 10_000 }))
    app.use((ctx) => {
      // With a validator of its own, a response gets no ETag from the cache.
      ctx.lastModified = new Date(0)
      ctx.body = make(ctx)
      if (ctx.query.type) ctx.type = String(ctx.query.type)
    })
    const server = await serve(app.callback())
    const ask = async (init: RequestInit = GET, target = '/') => {
      const answer = await fetch(`http://127.0.0.1:${server.port}${target}`, init)
      const { headers, status } = answer
      const [type, length, tag] = ['content-type', 'content-length', 'etag'].map((name) =>
        headers.get(name),
      )
      return { status, text: await answer.text(), type, length, tag }
    }
    const hit = async (init?: RequestInit, target?: string) => {
      const miss = await ask(GET, target)
      return { miss, hit: await ask(init, target) }
    }
    return { ask, hit, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
  }
  const pass: Koa.Middleware = (_ctx, next) => next()

  test.each(['GET', 'HEAD'])(
    'is not parsed or serialized on a hit for %s if no middleware is in front of the cache',
    async (method) => {
      await using app = await start([])
      const { miss } = await app.hit()
      const parse = vi.spyOn(JSON, 'parse')
      const stringify = vi.spyOn(JSON, 'stringify')
      const hit = await app.ask({ method })
      expect([parse.mock.calls, stringify.mock.calls]).toEqual([[], []])
      expect(hit).toEqual({ ...miss, text: method === 'HEAD' ? '' : TEXT })
      expect(hit.length).toBe(String(Buffer.byteLength(TEXT)))
    },
  )

  test('is parsed on a hit for a middleware that reads ctx.writable before ctx.body', async () => {
    const seen: unknown[] = []
    await using app = await start([
      async (ctx, next) => {
        await next()
        if (ctx.respond === false || !ctx.writable) return
        seen.push(ctx.body, ctx.response.length, ctx.res.hasHeader('Content-Length'))
      },
    ])
    await app.hit()
    const length = Buffer.byteLength(TEXT)
    expect(seen).toEqual([VALUE, length, false, VALUE, length, false])
  })

  test('is one parsed value on a hit for ctx.body and ctx.response.body', async () => {
    const seen = new Set<unknown>()
    await using app = await start([
      async (ctx, next) => {
        await next()
        if (!String(ctx.response.get('cache-status')).includes('hit')) return
        for (const body of [ctx.body, ctx.response.body]) seen.add(body)
      },
    ])
    await app.hit()
    expect(seen.size).toBe(1)
  })

  test('is parsed on a hit for a finish listener that reads ctx.body', async () => {
    const seen: unknown[] = []
    await using app = await start([
      (ctx, next) => {
        ctx.res.on('finish', () => seen.push(ctx.body))
        return next()
      },
    ])
    await app.hit()
    await expect.poll(() => seen).toEqual([VALUE, VALUE])
  })

  test('includes on a hit the change of a middleware after an inner one has read ctx.body', async () => {
    await using app = await start([
      async (ctx, next) => {
        await next()
        ctx.body.added = true
      },
      async (ctx, next) => {
        await next()
        ctx.set('X-List', String(ctx.body.list.length))
      },
    ])
    const { miss, hit } = await app.hit()
    expect(hit).toEqual(miss)
    expect(JSON.parse(hit.text)).toEqual({ ...VALUE, added: true })
    expect((await app.ask({ method: 'HEAD' })).length).toBe(miss.length)
  })

  test.each([
    ['a string', 'abc'],
    ['a Buffer', Buffer.from('abc')],
    ['another object', { b: 2 }],
    ['null', null],
    ['undefined', undefined],
  ])(
    'is replaced on a hit by the body that a middleware sets without reading ctx.body: %s',
    async (_name, body) => {
      await using app = await start([
        async (ctx, next) => {
          await next()
          ctx.body = body
        },
      ])
      const { miss, hit } = await app.hit()
      expect(hit).toEqual(miss)
    },
  )

  test('keeps on a hit the Content-Type that the handler set for an object', async () => {
    await using app = await start([pass])
    const { miss, hit } = await app.hit(GET, '/?type=text/plain')
    expect(miss.type).toBe('text/plain; charset=utf-8')
    expect(hit).toEqual(miss)
  })

  test.each([
    ['is stored by both', false],
    ['bypasses the outer', true],
  ])(
    'is shown on a miss and a hit to a middleware between two mounts of one cache if it %s',
    async (_case, bypasses) => {
      const seen: unknown[] = []
      const bypass = (ctx: Koa.Context): boolean => bypasses && ctx.path === '/'
      const cache = stampedeCache({ ttlMs: 10_000, bypass })
      const app = new Application()
      app.use(cache)
      app.use(async (ctx, next) => {
        // The inner cache has another key, so it does not leave the response to the outer one.
        ctx.url = `/en${ctx.url}`
        await next()
        seen.push(ctx.body)
      })
      app.use(cache)
      app.use((ctx) => {
        ctx.body = structuredClone(VALUE)
      })
      await using server = await serve(app.callback())
      for (const _ of ['miss', 'hit'])
        expect(await (await fetch(`http://127.0.0.1:${server.port}/`)).text()).toBe(TEXT)
      expect(seen).toEqual([VALUE, VALUE])
    },
  )

  test('has on a hit the length of its JSON even if a middleware has set ctx.length', async () => {
    await using app = await start([
      async (ctx, next) => {
        await next()
        ctx.length = 3
      },
    ])
    const { miss, hit } = await app.hit()
    expect(hit).toEqual(miss)
    expect(hit.text).toBe(TEXT)
  })

  test.each([
    ['before', true],
    ['after', false],
  ])(
    'reaches a res.end() wrapped %s the cache as the same chunk on a hit as on a miss',
    async (_n, early) => {
      const chunks: unknown[] = []
      const wrap = ({ res }: Koa.Context): void => {
        const { end } = res
        Object.assign(res, {
          end(...args: unknown[]) {
            chunks.push(args[0])
            return Reflect.apply(end, res, args)
          },
        })
      }
      await using app = await start([
        async (ctx, next) => {
          if (early) wrap(ctx)
          await next()
          if (!early) wrap(ctx)
        },
      ])
      await app.hit()
      expect(chunks).toEqual([TEXT, TEXT])
    },
  )

  test('has the same ETag and compression on a hit as on a miss, and supports If-None-Match', async () => {
    const layers = [compress({ threshold: 1 }), conditional(), (etag.default ?? etag)()]
    await using app = await start(layers)
    const { miss, hit } = await app.hit()
    expect(miss.tag).toEqual(expect.any(String))
    expect(hit).toEqual(miss)
    // Without it, fetch() sends `no-cache` with a condition.
    const headers = { 'If-None-Match': String(miss.tag), 'Cache-Control': 'max-age=60' }
    expect(await app.ask({ headers })).toMatchObject({ status: 304, text: '', tag: miss.tag })
  })

  test.each(['response', 'context'] as const)(
    'is the one that an app returns from its own body property of the %s',
    async (on) => {
      const prepare = (app: Koa): void => {
        const known = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(app[on]), 'body')
        Object.defineProperty(app[on], 'body', {
          configurable: true,
          get() {
            const body: unknown = known?.get?.call(this)
            return Object(body).list ? { wrapped: body } : body
          },
          set(value: unknown) {
            known?.set?.call(this, value)
          },
        })
      }
      await using app = await start([pass], () => VALUE, prepare)
      const { miss, hit } = await app.hit()
      // The miss is stored as this app returns it.
      expect(JSON.parse(miss.text)).toEqual({ wrapped: VALUE })
      expect(hit.type).toBe(miss.type)
    },
  )

  test('is serialized only once on a miss if no middleware is in front of the cache', async () => {
    const written = vi.fn()
    await using app = await start([], () => ({ toJSON: () => [written(), VALUE] }))
    await app.ask(GET, '/first')
    written.mockClear()
    const miss = await app.ask(GET, '/second')
    expect(miss.text).toBe(JSON.stringify([undefined, VALUE]))
    expect(miss.length).toBe(String(Buffer.byteLength(miss.text)))
    expect(written).toHaveBeenCalledTimes(1)
    expect(await app.ask(GET, '/second')).toEqual(miss)
  })

  test('includes on a miss the changes that a middleware makes without ctx.body', async () => {
    await using app = await start(
      [
        async (ctx, next) => {
          await next()
          ctx.state.view.user = 'a'
        },
      ],
      (ctx) => {
        ctx.set('Cache-Control', 'private')
        ctx.state.view = { user: '' }
        return ctx.state.view
      },
    )
    const { hit } = await app.hit()
    expect(JSON.parse(hit.text)).toEqual({ user: 'a' })
  })

  test('is replaced by the error that a middleware throws after a hit', async () => {
    let fails = false
    await using app = await start([
      async (_ctx, next) => {
        await next()
        if (fails) throw Object.assign(new Error('late'), { status: 418, expose: true })
      },
    ])
    await app.hit()
    fails = true
    expect(await app.ask()).toMatchObject({ status: 418, text: 'late' })
  })
})
