// stampedeCache in Koa 2 and 3, driven by a scripted core: the promises of the port, in both.

import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { PassThrough, Readable } from 'node:stream'
import type { CapturedHead, Reply } from '@stampede/core/adapter'
import type Koa from 'koa'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { fieldOf, rawRequest, serve, startRequest } from '../../node-http/src/testing/raw-client.ts'
import {
  endOf,
  fill,
  KEEP,
  type ScriptedCore,
  scriptedCache,
} from '../../node-http/src/testing/scripted-cache.ts'
import { stampedeCache } from './index.ts'

const core = vi.hoisted((): ScriptedCore<Koa.Context> => ({ script: () => {} }))
vi.mock('@stampede/core/adapter', async (original) => ({
  ...(await original<object>()),
  createHttpCache: scriptedCache(core),
}))

afterEach(() => {
  core.script = () => {}
})

const require = createRequire(import.meta.url)
const HIT: Reply = {
  status: 200,
  headers: [
    ['content-type', 'text/html'],
    ['x-tag', 'a'],
    ['x-tag', 'b'],
    ['cache-status', 'S; hit'],
  ],
  body: Buffer.from('from the cache'),
}

type Handler = (ctx: Koa.Context) => unknown

function body(make: () => unknown): Handler {
  return (ctx) => {
    ctx.body = make()
  }
}

const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

describe.each(VERSIONS)('stampedeCache on %s', (version, Application) => {
  function app(...middlewares: Koa.Middleware[]): Koa {
    const koa = new Application()
    koa.silent = true
    for (const middleware of middlewares) koa.use(middleware)
    return koa
  }

  test.each([
    ['past Koa if no middleware is in front', [], (listener) => listener, true],
    [
      'in ctx.body if a middleware is in front',
      [(_ctx, next) => next()],
      (listener) => listener,
      false,
    ],
    [
      'in ctx.body if the response is wrapped',
      [],
      (listener) => (req, res) => {
        const { end } = res
        Object.assign(res, { end: (...args: unknown[]) => Reflect.apply(end, res, args) })
        listener(req, res)
      },
      false,
    ],
  ] as ReadonlyArray<
    readonly [
      string,
      readonly Koa.Middleware[],
      (listener: RequestListener) => RequestListener,
      boolean,
    ]
  >)('sends a hit %s', async (_case, front, wrap, isPast) => {
    let ctx: Koa.Context | undefined
    core.script = (exchange) => {
      ctx = exchange.native
      exchange.send(HIT)
    }
    await using server = await serve(wrap(app(...front, stampedeCache()).callback()))
    expect((await rawRequest(server.port)).body).toBe('from the cache')
    expect(ctx?.body).toEqual(isPast ? undefined : HIT.body)
    // A layer may change the bytes in place.
    expect(ctx?.body).not.toBe(HIT.body)
  })

  test('does not store a stream that fails, and lets Koa report the error as without a cache', async () => {
    const { ends } = fill(core)
    const source = new PassThrough()
    const koa = app(
      stampedeCache(),
      body(() => source),
    )
    const errors = vi.fn()
    koa.on('error', errors)
    await using server = await serve(koa.callback())
    source.write('first')
    const response = await fetch(`http://127.0.0.1:${server.port}/`)
    source.destroy(new Error('disk'))
    expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'incomplete' })
    if (version === 'Koa 3') await expect(response.text()).rejects.toThrow()
    // The same number as without a cache. Koa 3 reports the error of a stream twice: for the stream
    // and for the response.
    expect(errors.mock.calls.map(([error]) => error.message)).toEqual(
      version === 'Koa 3' ? ['disk', 'disk'] : ['disk'],
    )
  })

  test('destroys the source stream if the client leaves', async () => {
    const { ends } = fill(core)
    const source = new PassThrough()
    const koa = app(
      stampedeCache(),
      body(() => source),
    )
    await using server = await serve(koa.callback())
    source.write('first')
    const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
    await once(client, 'data')
    client.destroy()
    expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'incomplete' })
    expect(source.destroyed).toBe(true)
  })

  test('does not store a response that begins after the client left, because outer middlewares may change it', async () => {
    const { ends } = fill(core)
    const { promise: gate, resolve: answer } = deferred()
    const { promise: arrival, resolve: arrived } = deferred<Koa.Context>()
    const koa = app(stampedeCache(), async (ctx) => {
      arrived(ctx)
      await gate
      ctx.body = { late: true }
    })
    await using server = await serve(koa.callback())
    const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
    const ctx = await arrival
    const closed = once(ctx.res, 'close')
    client.destroy()
    await closed
    answer()
    expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'incomplete' })
  })

  test('gives up a handler that never returns 30 s after its client left', async () => {
    const { ends } = fill(core)
    const { promise: arrival, resolve: arrived } = deferred<Koa.Context>()
    const koa = app(stampedeCache(), (ctx) => {
      arrived(ctx)
      return new Promise(() => {})
    })
    await using server = await serve(koa.callback())
    const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
    const ctx = await arrival
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    try {
      const closed = once(ctx.res, 'close')
      client.destroy()
      await closed
      vi.advanceTimersByTime(30_000)
      expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'incomplete' })
    } finally {
      vi.useRealTimers()
    }
  })

  test.each<[string, Handler]>([
    [
      'ctx.body',
      (ctx) => {
        ctx.body = 'Error: no stock'
        ctx.res.destroy()
      },
    ],
    [
      'ctx.res.end()',
      (ctx) => {
        ctx.respond = false
        ctx.res.end('Error: no stock')
        ctx.res.destroy(new Error('no stock'))
      },
    ],
  ])('does not store a response that the handler destroys after %s', async (_, handler) => {
    const { ends } = fill(core)
    await using server = await serve(app(stampedeCache(), handler).callback())
    await rawRequest(server.port)
    expect(await ends[0]).toMatchObject({ type: 'not-captured' })
  })

  test('does not store a body that is shorter than its Content-Length', async () => {
    const { ends } = fill(core)
    const koa = app(stampedeCache(), (ctx) => {
      ctx.body = 'short'
      ctx.length = 100
    })
    await using server = await serve(koa.callback())
    const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
    expect(await ends[0]).toBeUndefined()
    await once(client, 'data')
    client.destroy()
    expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'incomplete' })
  })

  test.each([204, 205])('stores a %i without the type that Koa removes from it', async (status) => {
    const { ends } = fill(core)
    const koa = app(stampedeCache(), (ctx) => {
      ctx.type = 'text/html'
      ctx.status = status
    })
    await using server = await serve(koa.callback())
    expect(fieldOf(await rawRequest(server.port), 'content-type')).toEqual([])
    const end = await ends[0]
    if (end?.type !== 'complete') throw new Error('not stored')
    expect(end.head.headers.map(([name]) => name)).not.toContain('content-type')
  })

  describe('a failure of the handler', () => {
    const ERRORS: ReadonlyArray<readonly [string, Handler, number]> = [
      ['ctx.throw(503)', (ctx) => ctx.throw(503, 'later'), 503],
      ['ctx.throw(404)', (ctx) => ctx.throw(404), 404],
      [
        'an Error',
        () => {
          throw new Error('broken')
        },
        500,
      ],
      [
        'ENOENT',
        () => {
          throw Object.assign(new Error('no file'), { code: 'ENOENT' })
        },
        version === 'Koa 2' ? 404 : 500,
      ],
    ]

    test.each(ERRORS)(
      'reaches the client as it does without a cache: %s',
      async (_, handler, status) => {
        const heads: CapturedHead[] = []
        const { ends } = fill(core, {
          ...KEEP,
          onHead(head) {
            heads.push(head)
            return {
              action: 'send',
              capture: false,
              add: [['cache-status', 'S; fwd=uri-miss']],
              remove: [],
            }
          },
        })
        await using plain = await serve(app(handler).callback())
        await using server = await serve(app(stampedeCache(), handler).callback())
        const response = await rawRequest(server.port)
        const rest = response.head.filter((line) => !line.startsWith('cache-status'))
        expect({ ...response, head: rest }).toEqual(await rawRequest(plain.port))
        expect(fieldOf(response, 'cache-status')).toHaveLength(1)
        expect(heads).toEqual([{ status, headers: [] }])
        expect(await ends[0]).toMatchObject({ type: 'failed', status })
      },
    )

    test('is replaced by a stored response, and still emitted by Koa as an error event', async () => {
      const { ends } = fill(core, { ...KEEP, onHead: () => ({ action: 'replace', reply: HIT }) })
      const koa = app(stampedeCache(), (ctx) => {
        ctx.set('X-Bad', '1')
        ctx.throw(503)
      })
      const errors = vi.fn()
      koa.on('error', errors)
      await using server = await serve(koa.callback())
      const response = await rawRequest(server.port)
      expect(response.head[0]).toContain('200')
      expect(response.body).toBe('from the cache')
      expect(fieldOf(response, 'x-bad')).toEqual([])
      expect(await ends[0]).toMatchObject({ type: 'failed', status: 503 })
      expect(errors).toHaveBeenCalledTimes(1)
    })

    test('is also replaced by a stored response if the handler sets status 500 without an Error', async () => {
      const { ends } = fill(core, { ...KEEP, onHead: () => ({ action: 'replace', reply: HIT }) })
      const koa = app(stampedeCache(), (ctx) => {
        ctx.status = 500
        ctx.body = Readable.from(['oops'])
      })
      await using server = await serve(koa.callback())
      expect((await rawRequest(server.port)).body).toBe('from the cache')
      expect(await ends[0]).toMatchObject({ type: 'replaced', head: { status: 500 } })
    })
  })

  test('runs the handler if the stored response cannot be sent', async () => {
    core.script = (exchange) => exchange.send({ ...HIT, headers: [['x-a', 'a\r\nb: c']] })
    const koa = app(
      stampedeCache(),
      body(() => 'from the app'),
    )
    await using server = await serve(koa.callback())
    expect((await rawRequest(server.port)).body).toBe('from the app')
  })

  test('removes Stampede-Cache-Control from an error with this header', async () => {
    core.script = (exchange) => endOf(exchange, 'runOrigin').then(() => {})
    const headers = { 'Stampede-Cache-Control': 'max-age=1' }
    const koa = app(stampedeCache(), (ctx) => ctx.throw(404, { headers }))
    await using server = await serve(koa.callback())
    expect(fieldOf(await rawRequest(server.port), 'stampede-cache-control')).toEqual([])
  })

  test('sends the response before the entry is stored', async () => {
    let finish: () => void = () => {}
    core.script = async (exchange) => {
      await endOf(exchange, 'runOrigin')
      await new Promise<void>((resolve) => {
        finish = resolve
      })
    }
    await using server = await serve(
      app(
        stampedeCache(),
        body(() => 'x'),
      ).callback(),
    )
    expect((await rawRequest(server.port)).body).toBe('x')
    finish()
  })
})
