// Hono alone in the journey of a cached request: mounting, middlewares in front of and behind the
// cache, errors, streams. The rest is in the contract
// (test/contracts/cache-adapters.versions.test.ts).

import { EventEmitter, once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createStampede } from '@stampede/core'
import { type Context, type Handler, Hono, type MiddlewareHandler } from 'hono'
import { compress } from 'hono/compress'
import { cors } from 'hono/cors'
import { etag } from 'hono/etag'
import { secureHeaders } from 'hono/secure-headers'
import { streamSSE, streamText } from 'hono/streaming'
import { describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { idempotency, stampedeCache } from './index.ts'
import { serve } from './testing/serve.ts'

const statusOf = ({ headers }: Response): string => String(headers.get('cache-status'))
const cached = () => stampedeCache({ stampede: createStampede(), ttlMs: 60_000 })

/** A handler that counts its runs. */
function counter() {
  let runs = 0
  return (c: Context) => c.text(`run ${++runs}`)
}

/** An app with `front`, the cache, `behind` and a handler for all paths. */
async function start(
  front: MiddlewareHandler[],
  behind: MiddlewareHandler[] = [],
  handler: Handler = counter(),
) {
  const app = new Hono()
  for (const each of [...front, cached(), ...behind]) app.use(each)
  app.get('*', handler)
  return serve(app)
}

const TEXT = 'text/plain; charset=UTF-8'

describe('stampedeCache on Hono', () => {
  it('caches one route, a sub-app and an app with a base path', async () => {
    const handler = counter()
    const sub = new Hono().use(cached()).get('/b', handler)
    const app = new Hono().get('/a', cached(), handler).route('/sub', sub).get('/c', handler)
    app.route('/', new Hono().basePath('/v1').use(cached()).get('/d', handler))
    await using server = await serve(app)
    const twice = async (path: string) => [await server.text(path), await server.text(path)]
    expect(await twice('/a')).toEqual(['run 1', 'run 1'])
    expect(await twice('/sub/b')).toEqual(['run 2', 'run 2'])
    expect(await twice('/v1/d')).toEqual(['run 3', 'run 3'])
    expect(await twice('/c')).toEqual(['run 4', 'run 5'])
    const head = await server.ask('/a', { method: 'HEAD' })
    expect([head.headers.get('content-length'), statusOf(head)]).toEqual([
      '5',
      expect.stringContaining('hit'),
    ])
  })

  it.each([
    ['c.body(null)', (c) => c.body(null)],
    ['c.redirect()', (c) => c.redirect('/b', 301)],
    ['c.text("")', (c) => c.text('')],
    ['a Response', () => new Response(null)],
  ] satisfies Array<[string, Handler]>)(
    'lets a middleware in front add fields to an empty response: %s',
    async (way, handler) => {
      await using app = await start([secureHeaders()], [], handler)
      const ask = async () => {
        const reply = await app.ask('/a', { redirect: 'manual' })
        return [await reply.text(), reply.status, reply.headers.get('x-content-type-options')]
      }
      const miss = await ask()
      expect(miss).toEqual(['', expect.any(Number), 'nosniff'])
      expect(await ask()).toEqual(miss)
      const hit = await app.ask('/a', { redirect: 'manual' })
      expect(statusOf(hit)).toContain('; hit')
      expect(hit.headers.has('content-type')).toBe(way === 'c.text("")')
    },
  )

  describe('with a middleware in front that sets fields for the first request only', () => {
    const FIELDS: Readonly<Record<string, string>> = {
      'x-frame-options': 'DENY',
      'content-security-policy': "default-src 'self'",
      'cache-control': 'max-age=30',
      vary: 'X-Kind',
      etag: '"v1"',
      link: '</style.css>; rel=preload',
      'access-control-allow-origin': '*',
      'x-content-type-options': 'nosniff',
      'content-type': 'text/x-own',
    }
    const HANDLERS: Record<string, Handler> = {
      'c.header': (c) => {
        for (const [name, value] of Object.entries(FIELDS)) c.header(name.toUpperCase(), value)
        return c.body('page')
      },
      'c.body': (c) => c.body('page', 200, FIELDS),
      'c.text': (c) => c.text('page', { headers: FIELDS }),
      'c.newResponse': (c) => c.newResponse('page', { headers: new Headers(FIELDS) }),
      'a Response': () => new Response('page', { headers: FIELDS }),
      'a stream': (c) => c.body(new Response('page').body as ReadableStream, 200, FIELDS),
    }

    async function missAndHit(handler: Handler, behind: MiddlewareHandler[] = []) {
      let requests = 0
      const front: MiddlewareHandler = async (c, next) => {
        c.header('x-request-id', `r${++requests}`)
        if (requests === 1) {
          for (const [name, value] of Object.entries(FIELDS)) c.header(name, value)
        }
        await next()
      }
      await using app = await start([front], behind, handler)
      const miss = await app.ask('/a')
      // The head of a stream arrives before its end. A request in between waits for the miss.
      expect(await miss.text()).toBe('page')
      const hit = await app.ask('/a')
      expect(await hit.text()).toBe('page')
      expect(statusOf(hit)).toContain('; hit')
      return { miss: Object.fromEntries(miss.headers), hit: Object.fromEntries(hit.headers) }
    }

    it.each(Object.keys(HANDLERS))('stores those that the handler sets by %s', async (way) => {
      const { miss, hit } = await missAndHit(HANDLERS[way] as Handler)
      // c.text() sets its own type.
      const expected = { ...FIELDS, ...(way === 'c.text' && { 'content-type': TEXT }) }
      expect(miss).toMatchObject(expected)
      expect(hit).toMatchObject(expected)
      if (way === 'a Response') return
      expect([miss['x-request-id'], hit['x-request-id']]).toEqual(['r1', 'r2'])
    })

    it('stores those that a middleware behind sets on the response, such as secureHeaders()', async () => {
      const vary: MiddlewareHandler = async (c, next) => {
        await next()
        c.res = new Response(c.res.body, c.res)
        c.res.headers.append('vary', 'X-Kind')
      }
      for (const inner of [[], [cached()]]) {
        const behind = [...inner, secureHeaders(), vary]
        const { hit } = await missAndHit((c) => c.body('page'), behind)
        expect(hit).toMatchObject({ 'x-content-type-options': 'nosniff', 'x-request-id': 'r2' })
        expect(hit.vary).toContain('X-Kind')
        expect(hit).not.toHaveProperty('link')
      }
    })

    it.each([[], [compress(), etag()]])(
      'stores none if the handler sets none',
      async (...behind) => {
        const { hit } = await missAndHit((c) => c.body('page'), behind as MiddlewareHandler[])
        expect(hit['x-request-id']).toBe('r2')
        for (const [name, value] of Object.entries(FIELDS)) expect(hit[name]).not.toBe(value)
      },
    )
  })

  it('sends the length of the body that a middleware in front has set', async () => {
    const front: MiddlewareHandler = async (c, next) => {
      await next()
      if (c.req.query('throws') !== undefined) throw new Error('a middleware in front failed')
      c.res = new Response(`longer: ${await c.res.text()}`)
    }
    await using server = await start([front])
    const twice = async (path: string) => [await server.text(path), await server.text(path)]
    expect(await twice('/')).toEqual(['longer: run 1', 'longer: run 1'])
    const errors = vi.spyOn(console, 'error').mockReturnValue()
    const failed = await twice('/?throws')
    errors.mockRestore()
    expect(failed).toEqual(['Internal Server Error', 'Internal Server Error'])
  })

  it.each(['/none', '/one', '/two', '/event', '/missing', '/no-store'])(
    'sends a stream of a helper of Hono that clients accept, on misses and hits: %s',
    async (path) => {
      const app = new Hono().use(cached()).use(idempotency({ scope: () => 'ada', required: false }))
      app.all('/none', (c) => streamText(c, async () => {}))
      app.all('/one', (c) => streamText(c, async (s) => void (await s.write('a'))))
      app.all('/two', (c) => streamText(c, async (s) => void (await s.write('a')).write('b')))
      app.all('/event', (c) => streamSSE(c, (s) => s.writeSSE({ data: 'a' })))
      const fields = { 'transfer-encoding': 'chunked' }
      const body = () => new Blob(['a']).stream()
      app.all('/missing', () => new Response(body(), { status: 404, headers: fields }))
      const hidden = { ...fields, 'cache-control': 'no-store' }
      app.all('/no-store', () => new Response(body(), { headers: hidden }))
      await using server = await serve(app)
      const texts = new Set<string>()
      for (const headers of [{}, {}, { authorization: 'Bearer a' }])
        texts.add(await server.text(path, { headers }))
      const post = { method: 'POST', body: '{}' }
      for (const headers of [{}, { 'idempotency-key': 'k' }, { 'idempotency-key': 'k' }])
        texts.add(await server.text(path, { ...post, headers }))
      expect([...texts]).toEqual([texts.values().next().value])
      expect((await server.ask(path, { method: 'HEAD' })).status).toBe(
        path === '/missing' ? 404 : 200,
      )
    },
  )

  it('lets the next request run the handler if a timeout in front has responded', async () => {
    let runs = 0
    const slowAtFirst: Handler = async (c) => {
      const run = ++runs
      if (run === 1) await sleep(100)
      return c.text(`run ${run}`)
    }
    const front: MiddlewareHandler = async (c, next) => {
      if (c.req.header('x-within') === undefined) return next()
      return Promise.race([next(), sleep(30).then(() => c.text('too late'))])
    }
    await using server = await start([front], [], slowAtFirst)
    const first = server.text('/', { headers: { 'x-within': '30' } })
    await vi.waitFor(() => expect(runs).toBe(1))
    const second = server.text('/', { signal: AbortSignal.timeout(2_000) })
    expect([await first, await second, await server.text('/')]).toEqual([
      'too late',
      'run 2',
      'run 2',
    ])
  })

  it('stores no response of a timeout in front that ends at about the time of the handler', async () => {
    for (let later = 0; later < 24; later++) {
      let runs = 0
      const [begun, gate] = [new EventEmitter(), new EventEmitter()]
      const opened = once(gate, 'open')
      const began = once(begun, 'run')
      const handler: Handler = async (c) => {
        if (++runs > 1) return c.text('page')
        begun.emit('run')
        await opened
        for (let i = 0; i < later; i++) await undefined
        return c.text('page')
      }
      const front: MiddlewareHandler = async (c, next) => {
        if (runs > 0) return next()
        return Promise.race([next(), opened.then(() => c.text('too late'))])
      }
      await using server = await start([front, (_c, next) => next()], [], handler)
      const first = server.text('/')
      await began
      gate.emit('open')
      expect(['too late', 'page'], `${later}`).toContain(await first)
      expect(await server.text('/'), `${later}`).toBe('page')
    }
  })

  it('fails at once for a Response whose body was read, also for requests that wait for it', async () => {
    let runs = 0
    const handler: Handler = async (c) => {
      const response = new Response(`run ${++runs}`)
      if (runs > 1) return response
      await sleep(50)
      await response.text()
      return c.body(response.body as ReadableStream)
    }
    await using server = await start([], [], handler)
    const errors = vi.spyOn(console, 'error').mockReturnValue()
    const first = server.ask('/')
    await vi.waitFor(() => expect(runs).toBe(1))
    const second = server.text('/', { signal: AbortSignal.timeout(2_000) })
    expect((await first).status).toBe(500)
    // It waited and shares the failure, or came later.
    expect(await second).toMatch(/origin-failed|run 2/)
    errors.mockRestore()
  })

  it('lets middlewares in front change each response, and stores no such change', async () => {
    let requests = 0
    const front: MiddlewareHandler = async (c, next) => {
      requests += 1
      c.header('x-before', `r${requests}`)
      await next()
      c.header('x-after', `r${requests}`)
    }
    await using server = await start([front, cors()])
    const miss = await server.ask('/')
    const hit = await server.ask('/')
    const own = ({ headers }: Response) => ['x-before', 'x-after'].map((name) => headers.get(name))
    expect([own(miss), own(hit)]).toEqual([
      ['r1', 'r1'],
      ['r2', 'r2'],
    ])
    expect(hit.headers.get('access-control-allow-origin')).toBe('*')
    expect([await hit.text(), statusOf(hit)]).toEqual(['run 1', expect.stringContaining('hit')])
  })

  it('sends several cookies of a middleware in front once each, and stores none', async () => {
    const front: MiddlewareHandler = (c, next) => {
      c.header('set-cookie', 'a=1', { append: true })
      c.header('set-cookie', 'b=2', { append: true })
      return next()
    }
    await using server = await start([front])
    for (let i = 0; i < 2; i++)
      expect((await server.ask('/')).headers.getSetCookie()).toEqual(['a=1', 'b=2'])
  })

  it.each(['in front of', 'behind'])(
    'works with compress() and etag() %s the cache',
    async (where) => {
      const layers = [etag(), compress({ threshold: 0 })]
      const handler = (c: Context) => c.text('abc'.repeat(1_000))
      const [front, behind] = where === 'behind' ? [[], layers] : [layers, []]
      await using server = await start(front, behind, handler)
      for (const _ of ['miss', 'hit']) {
        const page = await server.ask('/', { headers: { 'accept-encoding': 'gzip' } })
        expect(page.headers.get('content-encoding')).toBe('gzip')
        expect(await page.text()).toBe('abc'.repeat(1_000))
        const tag = String(page.headers.get('etag'))
        const again = await server.ask('/', {
          headers: {
            'accept-encoding': 'gzip',
            'if-none-match': tag,
            'cache-control': 'max-age=60',
          },
        })
        expect([again.status, await again.text()]).toEqual([304, ''])
      }
    },
  )

  it('sends server-sent events as they come, and stops them when the client leaves', async () => {
    let aborted = false
    await using server = await start([], [], (c) =>
      streamSSE(c, async (stream) => {
        stream.onAbort(() => {
          aborted = true
        })
        for (let i = 0; !aborted; i++) {
          await stream.writeSSE({ data: `event ${i}` })
          await stream.sleep(5)
        }
      }),
    )
    const client = request(server.url).end()
    const [response] = await once(client, 'response')
    const [chunk] = await once(response, 'data')
    expect(String(chunk)).toContain('event 0')
    client.destroy()
    await expect.poll(() => aborted).toBe(true)
  })

  it.each([
    ['stored', {}],
    ['not stored', { authorization: 'Bearer a' }],
  ])(
    'joins small chunks that wait for the reader, of a response that is %s',
    async (_, headers) => {
      let chunks = 0
      const front: MiddlewareHandler = async (c, next) => {
        await next()
        const counts = new TransformStream({
          transform(chunk, controller) {
            chunks += 1
            controller.enqueue(chunk)
          },
        })
        c.res = new Response(c.res.body?.pipeThrough(counts), c.res)
      }
      await using server = await start([front], [], async (c) => {
        const { outgoing } = c.env
        outgoing.setHeader('content-type', 'text/plain')
        for (let i = 0; i < 4_000; i++)
          if (!outgoing.write(String(i % 10))) await once(outgoing, 'drain')
        outgoing.end()
        return RESPONSE_ALREADY_SENT
      })
      expect(await server.text('/', { headers })).toBe('0123456789'.repeat(400))
      expect(chunks).toBeLessThan(100)
    },
  )

  it('does not buffer a large body that its client does not read', async () => {
    let sent = 0
    const chunk = new Uint8Array(1024 * 1024)
    await using server = await start([], [], (c) =>
      c.body(
        new ReadableStream({
          pull(controller) {
            sent += 1
            if (sent > 200) controller.close()
            else controller.enqueue(chunk)
          },
        }),
      ),
    )
    const client = request(server.url).end()
    const [response] = await once(client, 'response')
    response.pause()
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(sent).toBeLessThan(60)
    client.destroy()
  })

  it('sends the response of app.onError, and stores neither it nor that of notFound', async () => {
    const app = new Hono().use(cached())
    let runs = 0
    app.get('/broken', () => {
      throw new Error(`broken ${++runs}`)
    })
    app.onError((error, c) => c.text(error.message, 500))
    app.notFound((c) => c.text(`nothing ${++runs}`, 404))
    await using server = await serve(app)
    const texts = []
    for (const path of ['/broken', '/broken', '/none', '/none']) texts.push(await server.text(path))
    expect(texts).toEqual(['broken 1', 'broken 2', 'nothing 3', 'nothing 4'])
  })

  it('sends a stale response in place of an error, and app.onError still gets the error', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const errors: string[] = []
    let fails = false
    const app = new Hono().use(stampedeCache({ stampede, ttlMs: 1_000, staleIfErrorMs: 60_000 }))
    app.get('/', (c) => {
      if (fails) throw new Error('broken')
      return c.text('page')
    })
    app.onError((error, c) => {
      errors.push(error.message)
      return c.text('', 500)
    })
    await using server = await serve(app)
    await server.text('/')
    await clock.advance(2_000)
    fails = true
    expect([await server.text('/'), errors]).toEqual(['page', ['broken']])
  })

  it('ends middlewares in front when the client of a waiting request leaves', async () => {
    let [entered, left] = [0, 0]
    const { promise: gate, resolve: go } = deferred()
    const front: MiddlewareHandler = async (_c, next) => {
      entered += 1
      await next()
      left += 1
    }
    await using server = await start([front], [(_c, next) => gate.then(next)])
    void server.text('/').catch(() => {})
    await expect.poll(() => entered).toBe(1)
    const waiter = request(server.url)
      .on('error', () => {})
      .end()
    await expect.poll(() => entered).toBe(2)
    waiter.destroy()
    await expect.poll(() => left).toBe(1)
    go()
    await expect.poll(() => left).toBe(2)
  })

  it('counts requests in stats().routes by the pattern of their route', async () => {
    const stampede = createStampede()
    const app = new Hono().use(stampedeCache({ stampede, ttlMs: 60_000 }))
    app.get('/products/:id', counter())
    await using server = await serve(app)
    for (const path of ['/products/1', '/products/2', '/products/1', '/none'])
      await server.text(path)
    expect(stampede.stats().routes).toMatchObject({
      '/products/:id': { hits: 1, misses: 2 },
      '(http)': { misses: 1 },
    })
  })

  it('passes an error of a callback to app.onError, and gives callbacks the context', async () => {
    const key = (c: Context): string => {
      if (c.req.query('fail')) throw new Error('no key')
      return c.req.path
    }
    const app = new Hono().use(stampedeCache({ stampede: createStampede(), ttlMs: 60_000, key }))
    app.get('*', counter()).onError((error, c) => c.text(error.message, 500))
    await using server = await serve(app)
    expect(await server.text('/a?x=1')).toBe('run 1')
    expect(await server.text('/a?x=2')).toBe('run 1')
    expect(await server.text('/a?fail=1')).toBe('stampedeCache.key: the function threw: no key')
  })

  it('passes a missing response of the handler to app.onError, and stores nothing', async () => {
    const forgotten = (async (c: Context) => void c.text('page')) as never
    const app = new Hono().use(cached()).get('/', forgotten)
    app.onError((error, c) => c.text(error.message, 500))
    await using server = await serve(app)
    for (let i = 0; i < 2; i++) {
      const response = await server.ask('/')
      expect([response.status, await response.text()]).toEqual([
        500,
        expect.stringContaining('returned no Response'),
      ])
    }
  })

  it('frees the key at once if the handler throws a value that is no Error', async () => {
    let runs = 0
    await using server = await start([], [], () => {
      runs += 1
      throw 'no Error'
    })
    for (let i = 0; i < 3; i++) expect((await server.ask('/')).status).toBe(500)
    expect(runs).toBe(3)
  })

  it('passes what a handler writes to c.env.outgoing', async () => {
    let runs = 0
    const handler = (({ env }: Context) => {
      env.outgoing.writeHead(200, ['Link', '<a>', 'Link', '<b>']).end(`run ${++runs}`)
      return RESPONSE_ALREADY_SENT
    }) as never
    await using server = await start([], [], handler)
    for (let i = 0; i < 2; i++) expect(await server.text('/')).toBe('run 1')
  })

  it('rejects a request without a server of Node, and says what to use', async () => {
    const app = new Hono().use(cached()).get('/', counter())
    app.onError(({ message }, c) => c.text(message, 500))
    const response = await app.request('/')
    expect([response.status, await response.text()]).toEqual([
      500,
      expect.stringContaining('serve the app with @hono/node-server'),
    ])
  })

  it('warns of two caches with separate entries in one app', async () => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const app = new Hono().get('/a', stampedeCache({ ttlMs: 60_000 }), counter())
    app.get('/b', stampedeCache({ ttlMs: 60_000 }), counter())
    await using server = await serve(app)
    for (const path of ['/a', '/b']) await server.text(path)
    const codes = emitWarning.mock.calls.map(([, options]) => Object(options).code)
    expect(codes).toEqual(['STAMPEDE_SEPARATE_CACHES'])
    emitWarning.mockRestore()
  })
})
