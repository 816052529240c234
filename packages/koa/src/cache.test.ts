// stampedeCache in Koa 2 and 3, driven by a scripted core: the promises of the port, in both.

import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { PassThrough, Readable } from 'node:stream'
import type { CapturedHead, OriginEnd, Reply } from '@stampede/core/adapter'
import type Koa from 'koa'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { fieldOf, rawRequest, serve, startRequest } from '../../node-http/src/testing/raw-client.ts'
import {
  endOf,
  fill,
  KEEP,
  type ScriptedCore,
  scriptedCache,
  wholeOf,
} from '../../node-http/src/testing/scripted-cache.ts'
import { isRevalidation, stampedeCache } from './index.ts'

type Script = ScriptedCore<Koa.Context>['script']

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

function headerOf(head: CapturedHead, name: string): string | undefined {
  return head.headers.find(([n]) => n === name)?.[1]
}

type Handler = (ctx: Koa.Context) => unknown

function body(make: () => unknown): Handler {
  return (ctx) => {
    ctx.body = make()
  }
}

const LARGE = 'stampede '.repeat(20_000)
const BODIES: ReadonlyArray<readonly [string, Handler]> = [
  ['a string', body(() => 'hello')],
  ['html', body(() => '<p>hello')],
  ['an empty string', body(() => '')],
  ['a Buffer', body(() => Buffer.from('hello'))],
  ['a stream', body(() => Readable.from([LARGE, LARGE]))],
  ['an object', body(() => ({ hello: 'world' }))],
  ['an array', body(() => [1, 2])],
  ['a number', body(() => 7)],
  ['a boolean', body(() => true)],
  ['null', body(() => null)],
  ['a status alone', (ctx) => Object.assign(ctx, { status: 202 })],
  ['nothing', () => {}],
  [
    'null with a status',
    (ctx) => {
      ctx.body = null
      ctx.status = 200
    },
  ],
  [
    'a stream with a length and a type',
    (ctx) => {
      ctx.type = 'text/csv'
      ctx.length = 3
      ctx.body = Readable.from(['a,b'])
      ctx.length = 3
    },
  ],
  [
    'a stream without a type',
    (ctx) => {
      ctx.body = Readable.from(['a'])
      ctx.remove('Content-Type')
    },
  ],
  ['a web stream', body(() => new Blob([LARGE]).stream())],
  ['a Blob', body(() => new Blob(['hello'], { type: 'text/x-a' }))],
  ['a Response', body(() => new Response('hello', { status: 203, headers: { 'X-A': '1' } }))],
  ['a redirect', (ctx) => ctx.redirect('/elsewhere')],
]

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

  test('sees the target, host and header fields as the client sent them', async () => {
    const seen: unknown[] = []
    core.script = (exchange) => {
      const { headers, ...view } = exchange.request
      seen.push(view, headers['x-a'])
      return exchange.forward([])
    }
    await using server = await serve(app(stampedeCache()).callback())
    await rawRequest(server.port, '/b?x=1&x=2', ['X-A: 1', 'X-Forwarded-Host: evil.test'])
    const target = '/b?x=1&x=2'
    expect(seen).toEqual([
      expect.objectContaining({ method: 'GET', scheme: 'http', host: 'shop.test:8080', target }),
      '1',
    ])
  })

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

  test.each([
    ['a body without a type', { ...HIT, headers: [] }, [], '14', 'from the cache'],
    ['status 304', { ...HIT, status: 304 }, ['text/html'], undefined, ''],
    ['status 503 without a body', { status: 503, headers: [], body: undefined }, [], '0', ''],
  ] as Array<[string, Reply, string[], string | undefined, string]>)(
    'sends a response of the cache with %s unchanged',
    async (_case, reply, type, length, text) => {
      core.script = (exchange) => exchange.send(reply)
      await using server = await serve(app(stampedeCache()).callback())
      const response = await rawRequest(server.port)
      expect(response.head[0]).toContain(String(reply.status))
      expect(response.body).toBe(text)
      expect(fieldOf(response, 'content-length')).toEqual(length === undefined ? [] : [length])
      if (reply.status !== 304) expect(fieldOf(response, 'content-type')).toEqual(type)
    },
  )

  test('runs the handler if the stored response cannot be sent', async () => {
    core.script = (exchange) => exchange.send({ ...HIT, headers: [['x-a', 'a\r\nb: c']] })
    const koa = app(
      stampedeCache(),
      body(() => 'from the app'),
    )
    await using server = await serve(koa.callback())
    expect((await rawRequest(server.port)).body).toBe('from the app')
  })

  test.each(BODIES)(
    'captures the response, sends the same as Koa alone, and then a like hit if the handler sets %s',
    async (_, handler) => {
      const { ends } = fill(core)
      await using plain = await serve(app(handler).callback())
      await using server = await serve(app(stampedeCache(), handler).callback())
      const expected = await rawRequest(plain.port)
      const response = await rawRequest(server.port)
      const rest = response.head.filter((line) => !line.startsWith('cache-status'))
      expect(rest.toSorted()).toEqual(expected.head.toSorted())
      expect(response.body).toBe(expected.body)
      expect(fieldOf(response, 'cache-status')).toEqual(['S; fwd=uri-miss'])

      const { head, text } = wholeOf(await ends[0])
      const real = await fetch(`http://127.0.0.1:${plain.port}/`, { redirect: 'manual' })
      expect(text).toBe(await real.text())
      expect(head.status).toBe(real.status)
      expect(headerOf(head, 'content-type') ?? null).toBe(real.headers.get('content-type'))

      core.script = (exchange) => exchange.send({ ...head, body: Buffer.from(text) })
      const hit = await rawRequest(server.port)
      expect(hit.head[0]).toBe(response.head[0])
      expect(fieldOf(hit, 'content-type')).toEqual(fieldOf(response, 'content-type'))
    },
  )

  test.each(BODIES)(
    'sends the same as Koa alone for a response that is not captured if the handler sets %s',
    async (_, handler) => {
      const { ends } = fill(core, {
        ...KEEP,
        onHead: () => ({ action: 'send', capture: false, add: [], remove: [] }),
      })
      await using plain = await serve(app(handler).callback())
      await using server = await serve(app(stampedeCache(), handler).callback())
      expect(await rawRequest(server.port)).toEqual(await rawRequest(plain.port))
      expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'declined' })
    },
  )

  test.each(BODIES.slice(3, 6))(
    'sends %s completely if the body is too large to store',
    async (_, handler) => {
      const { ends } = fill(core, { ...KEEP, maxBodyBytes: 2 })
      await using plain = await serve(app(handler).callback())
      await using server = await serve(app(stampedeCache(), handler).callback())
      expect((await rawRequest(server.port)).body).toBe((await rawRequest(plain.port)).body)
      expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'too-large' })
    },
  )

  test('sends the first chunk of a stream before the stream has ended', async () => {
    const { ends } = fill(core)
    const source = new PassThrough()
    const koa = app(
      stampedeCache(),
      body(() => source),
    )
    await using server = await serve(koa.callback())
    source.write('first')
    const reader = (await fetch(`http://127.0.0.1:${server.port}/`)).body?.getReader()
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('first')
    source.end('second')
    expect(wholeOf(await ends[0]).text).toBe('firstsecond')
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
    let answer: () => void = () => {}
    const gate = new Promise<void>((resolve) => {
      answer = resolve
    })
    let arrived: (ctx: Koa.Context) => void = () => {}
    const arrival = new Promise<Koa.Context>((resolve) => {
      arrived = resolve
    })
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
    let arrived: (ctx: Koa.Context) => void = () => {}
    const arrival = new Promise<Koa.Context>((resolve) => {
      arrived = resolve
    })
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

  test('does not store a response on which an outer middleware sets a cookie afterwards', async () => {
    const { ends } = fill(core)
    const outer = async (ctx: Koa.Context, next: Koa.Next) => {
      await next()
      ctx.cookies.set('session', 'a')
    }
    const koa = app(outer, stampedeCache(), (ctx) => {
      ctx.body = 'personal'
    })
    await using server = await serve(koa.callback())
    const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
    await once(client, 'data')
    expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'declined' })
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

  test.each<[string, Handler]>([
    [
      'ctx.respond = false',
      (ctx) => {
        ctx.respond = false
        ctx.res.end('by hand')
      },
    ],
    ['ctx.res.end()', (ctx) => void ctx.res.end('by hand')],
  ])(
    'sends, but does not store, a response that the handler writes with %s',
    async (_, handler) => {
      const { ends } = fill(core)
      await using server = await serve(app(stampedeCache(), handler).callback())
      expect((await rawRequest(server.port)).body).toContain('by hand')
      expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'detached' })
    },
  )

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

    test('reaches the client unchanged if the request bypasses the cache', async () => {
      core.script = (exchange) => exchange.forward([['cache-status', 'S; fwd=bypass']])
      const koa = app(stampedeCache(), (ctx) => ctx.throw(503))
      await using server = await serve(koa.callback())
      const response = await rawRequest(server.port)
      expect(response.head[0]).toContain('503')
      expect(fieldOf(response, 'cache-status')).toEqual(['S; fwd=bypass'])
    })
  })

  test.each<[string, Script]>([
    [
      'throws',
      () => {
        throw new Error('core')
      },
    ],
    ['returns a rejected promise', () => Promise.reject(new Error('core'))],
  ])('passes an error of the cache itself to Koa if the cache %s', async (_, script) => {
    core.script = script
    await using server = await serve(app(stampedeCache()).callback())
    expect((await rawRequest(server.port)).head[0]).toContain('500')
  })

  test.each<[string, Script, Koa.Middleware]>([
    [
      'a hit',
      (exchange) => exchange.send(HIT),
      (ctx, next) => {
        ctx.set('Stampede-Cache-Control', 'max-age=1')
        return next()
      },
    ],
    [
      'a response that the handler writes to ctx.res',
      (exchange) => endOf(exchange, 'runOrigin').then(() => {}),
      (ctx) => {
        ctx.respond = false
        ctx.res.writeHead(200, { 'Stampede-Cache-Control': 'max-age=1' }).end('x')
      },
    ],
    [
      'an error with this header',
      (exchange) => endOf(exchange, 'runOrigin').then(() => {}),
      (ctx) => ctx.throw(404, { headers: { 'Stampede-Cache-Control': 'max-age=1' } }),
    ],
  ])('removes Stampede-Cache-Control from %s', async (what, script, handler) => {
    core.script = script
    const koa = what === 'a hit' ? app(handler, stampedeCache()) : app(stampedeCache(), handler)
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

  test.each(BODIES)(
    'runs all middlewares again for a background refresh whose handler sets %s',
    async (_, handler) => {
      const ends: Array<Promise<OriginEnd>> = []
      core.script = (exchange) => {
        exchange.send(HIT)
        ends.push(endOf(exchange, 'redispatch'))
      }
      const passed: unknown[] = []
      const outer: Koa.Middleware = (ctx, next) => {
        passed.push([isRevalidation(ctx.req), ctx.method, ctx.originalUrl, ctx.ip])
        return next()
      }
      await using server = await serve(app(outer, stampedeCache(), handler).callback())
      await using plain = await serve(app(handler).callback())
      expect((await rawRequest(server.port, '/x?y')).body).toBe('from the cache')
      const real = await fetch(`http://127.0.0.1:${plain.port}/x?y`, { redirect: 'manual' })
      expect(wholeOf(await ends[0]).text).toBe(await real.text())
      expect(passed).toEqual([
        [false, 'GET', '/x?y', '127.0.0.1'],
        [true, 'GET', '/x?y', '127.0.0.1'],
      ])
    },
  )

  test('reports a background refresh as failed if the handler throws', async () => {
    const ends: Array<Promise<OriginEnd>> = []
    core.script = (exchange) => {
      exchange.send(HIT)
      ends.push(endOf(exchange, 'redispatch'))
    }
    await using server = await serve(app(stampedeCache(), (ctx) => ctx.throw(503)).callback())
    await rawRequest(server.port)
    expect(await ends[0]).toMatchObject({ type: 'failed', status: 503 })
  })
})
