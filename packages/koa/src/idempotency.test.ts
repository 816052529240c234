// idempotency() in Koa 2 and 3, driven by a scripted core: features of Koa alone. The rest is in
// the contract (test/contracts/idempotency-adapters.versions.test.ts).

import { once } from 'node:events'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { IdempotentExchange, Reply } from '@stampede/core/adapter'
import type Koa from 'koa'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import {
  answerOf,
  post,
  type Run,
  runAll,
  type ScriptedCore,
  settle,
} from '../../node-http/src/testing/scripted-idempotency.ts'
import { idempotency } from './index.ts'

const core = vi.hoisted((): ScriptedCore<Koa.Context> => ({ script: () => {} }))
vi.mock('@stampede/core/adapter', async (original) => ({
  ...(await original<object>()),
  createHttpIdempotency: () => ({
    handle: (...args: Parameters<typeof core.script>) => core.script(...args),
  }),
}))

afterEach(() => {
  core.script = () => {}
})

const require = createRequire(import.meta.url)

type Handler = (ctx: Koa.Context) => unknown

function body(make: () => unknown, status?: number): Handler {
  return (ctx) => {
    if (status !== undefined) ctx.status = status
    ctx.body = make()
  }
}

function thrown(status: number, message: string): Error {
  return Object.assign(new Error(message), { status, expose: true, headers: { 'X-Err': '1' } })
}

/** Ways to respond at once, which Koa uses also for a client that has left. */
const AT_HAND: ReadonlyArray<readonly [string, Handler]> = [
  ['an object', body(() => ({ hello: 'wörld' }), 201)],
  ['nothing', () => {}],
  [
    'res, without Koa',
    (ctx) => {
      ctx.respond = false
      ctx.res.writeHead(201, { 'X-A': '1' })
      ctx.res.write('one ')
      ctx.res.end('two')
    },
  ],
  [
    'res, later',
    (ctx) => {
      ctx.respond = false
      setImmediate(() => Object.assign(ctx.res, { statusCode: 201 }).end('later'))
    },
  ],
]

const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

describe.each(VERSIONS)('idempotency() on %s', (_, Application) => {
  function app(...middlewares: Koa.Middleware[]): Koa {
    const koa = new Application()
    koa.silent = true
    for (const middleware of middlewares) koa.use(middleware)
    return koa
  }
  const protect = (): Koa.Middleware => idempotency({ scope: () => 'me' })
  const serveApp = (...middlewares: Koa.Middleware[]) => serve(app(...middlewares).callback())

  describe('a response', () => {
    // Each replay sends the reported bytes, so the first client must get them too.
    describe.each([
      ['without a layer in front', []],
      ['behind another middleware', [(_ctx: Koa.Context, next: Koa.Next) => next()]],
    ])('%s', (_, outer: Koa.Middleware[]) => {
      const make = () => ({ total: 1, tags: ['a'] })
      type Made = ReturnType<typeof make>
      const fail = (): never => {
        throw new Error('a getter')
      }
      test.each<[string, (made: Made, ctx: Koa.Context) => unknown]>([
        ['its object', (made) => Object.assign(made, { total: 2 })],
        ['a member of its object', (made) => made.tags.push('b')],
        ['toJSON of its object', (made) => Object.assign(made, { toJSON: fail })],
        ['a field', (_made, ctx) => ctx.set('X-Own', '2')],
        ['the reason phrase', (_made, ctx) => Object.assign(ctx, { message: 'Changed' })],
        ['ctx.body', (_made, ctx) => Object.assign(ctx, { body: 'other' })],
      ])('is sent as it was reported if the app then changes %s', async (_name, change) => {
        const run = runAll(core, 'held')
        let later = (): void => {}
        await using server = await serveApp(...outer, protect(), (ctx) => {
          ctx.set('X-Own', '1')
          const made = make()
          ctx.body = made
          later = () => void change(made, ctx)
        })
        const posted = post(server.port)
        const { text } = answerOf(await run.told)
        later()
        run.letGo()
        const [head, sent] = (await posted.whole()).split('\r\n\r\n')
        expect(sent).toBe(text)
        expect(head?.split('\r\n')[0]).toBe('HTTP/1.1 200 OK')
        expect(head).toMatch(/^x-own: 1\r$/im)
        expect(head?.toLowerCase()).toContain(`content-length: ${text.length}\r\n`)
      })

      test('is sent as it was reported if the app then changes its Buffer', async () => {
        const run = runAll(core, 'held')
        const bytes = Buffer.from('hello')
        await using server = await serveApp(...outer, protect(), (ctx) => {
          ctx.body = bytes
        })
        const posted = post(server.port)
        await run.told
        bytes.fill('x')
        run.letGo()
        expect(await posted.whole()).toMatch(/hello$/)
      })
    })

    test.each<[string, Handler]>([
      [
        'a thrown error',
        () => {
          throw Object.assign(new Error('no'), {
            status: 422,
            expose: true,
            headers: { 'X-E': '1' },
          })
        },
      ],
      [
        'an error without details',
        (ctx) => {
          ctx.set('X-Gone', '1')
          throw new Error('secret')
        },
      ],
    ])('is captured first, and then reaches the client unchanged: %s', async (_, say) => {
      await using bare = await serveApp((ctx) => void say(ctx))
      const plain = await rawRequest(bare.port, '/', [], 'POST')
      const run = runAll(core, 'held')
      await using server = await serveApp(protect(), (ctx) => void say(ctx))
      const request = rawRequest(server.port, '/', [], 'POST')
      const { status, text } = answerOf(await run.told)
      run.letGo()
      expect(await request).toEqual(plain)
      expect(`HTTP/1.1 ${status}`).toBe(plain.head[0]?.slice(0, 12))
      expect(text).toBe(plain.body)
      expect(run.ends).toHaveLength(1)
    })

    test('is sent but not stored if it is too large and the handler wrote it to ctx.res', async () => {
      const run = runAll(core, 'held', { maxBodyBytes: 1_000 })
      const large = 'x'.repeat(1_001)
      await using server = await serveApp(protect(), (ctx) => {
        ctx.respond = false
        ctx.res.writeHead(201).end(large)
      })
      const request = post(server.port)
      await run.told
      run.letGo()
      expect(await request.whole()).toContain(large)
      expect(run.ends).toMatchObject([{ type: 'not-retained', head: { status: 201 } }])
    })

    test('is not stored if the stream of its body fails', async () => {
      const run = runAll(core)
      const source = new Readable({ read() {} })
      await using server = await serveApp(protect(), body(() => source, 201) as Koa.Middleware)
      const request = post(server.port)
      source.push('one ')
      while (!request.received().includes('one ')) await once(request.client, 'data')
      source.destroy(new Error('broken'))
      expect(await run.told).toMatchObject({ type: 'not-retained', head: { status: 201 } })
      request.client.destroy()
    })

    test('has status 500 if Koa cannot serialize the body', async () => {
      const run = runAll(core)
      await using server = await serveApp(protect(), body(() => ({ n: 1n }), 201) as Koa.Middleware)
      expect(await post(server.port).whole()).toMatch(/^HTTP\/1\.1 500/)
      expect(run.ends.map(answerOf)).toMatchObject([{ status: 500 }])
    })
  })

  describe('a response in a transaction', () => {
    const sized = (length: number, make: () => unknown): Handler => {
      return (ctx) => Object.assign(ctx, { body: make(), length })
    }

    async function sentBy(handler: Handler, reply?: Reply) {
      const ends: string[] = []
      core.script = (exchange) =>
        exchange.run({
          ...{ holdsAll: true, maxBodyBytes: 1_000, graceMs: 60_000 },
          async onEnd(end) {
            ends.push(end.type)
            return reply
          },
        })
      await using server = await serveApp(protect(), handler)
      return { ends, sent: await post(server.port).whole() }
    }

    test.each<[string, Handler]>([
      ['has more bytes than its length', sized(3, () => 'half')],
      ['has fewer bytes than its length', sized(9, () => 'half')],
      ['streams more bytes than its length', sized(3, () => Readable.from(['half']))],
      ['streams fewer bytes than its length', sized(9, () => Readable.from(['half']))],
      [
        'has a source that is destroyed',
        body(() => {
          const source = new Readable({ read() {} })
          setImmediate(() => source.destroy())
          return source
        }),
      ],
    ])('fails, and nothing of it is sent, if it %s', async (_, handler) => {
      expect(await sentBy(handler)).toEqual({ ends: ['failed'], sent: '' })
    })

    test('is broken off if the reply of core cannot be sent', async () => {
      const reply: Reply = { status: 200, headers: [['bad name', '']], body: undefined }
      const own = body(() => 'own')
      expect(await sentBy(own, reply)).toEqual({ ends: ['complete'], sent: '' })
    })
  })

  describe('a request', () => {
    const parser =
      (key: 'body' | 'rawBody'): Koa.Middleware =>
      async (ctx, next) => {
        const text = (await buffer(ctx.req)).toString()
        Object.assign(ctx.request, { body: JSON.parse(text) })
        if (key === 'rawBody') Object.assign(ctx.request, { rawBody: text })
        await next()
      }
    const echo: Koa.Middleware = (ctx) => {
      ctx.body = Reflect.get(ctx.request, 'body')
    }

    test.each<['body' | 'rawBody', Awaited<ReturnType<IdempotentExchange['readBody']>>]>([
      ['body', { type: 'parsed', value: { a: 1 } }],
      ['rawBody', { type: 'bytes', bytes: Buffer.from(' {"a":1}') }],
    ])(
      'has a body that the middleware knows if an earlier parser set ctx.request.%s',
      async (key, seen) => {
        const run = runAll(core)
        await using server = await serveApp(parser(key), protect(), echo)
        await post(server.port, ' {"a":1}').whole()
        expect(run.bodies).toEqual([seen])
      },
    )
  })

  describe('the handler', () => {
    const handler = vi.fn<Koa.Middleware>((ctx) => {
      ctx.body = 'handled'
    })
    afterEach(() => void handler.mockClear())

    test("does not run if the middleware's own response cannot be sent, and the client gets 500", async () => {
      core.script = (exchange) =>
        exchange.send({ status: 200, headers: [['x-a', 'a\nb']], body: undefined })
      await using server = await serveApp(protect(), handler)
      expect(await post(server.port).whole()).toMatch(/^HTTP\/1\.1 500/)
      expect(handler).not.toHaveBeenCalled()
    })
  })

  describe('after the client has left', () => {
    /** The client leaves before the handler responds. */
    async function leaveThen(say: Handler, ...outer: Koa.Middleware[]): Promise<Run> {
      const run = runAll(core)
      const { promise: arrival, resolve: arrive } = deferred<Koa.Context>()
      await using server = await serveApp(...outer, protect(), async (ctx) => {
        arrive(ctx)
        await once(ctx.res, 'close')
        await say(ctx)
      })
      const { client } = post(server.port)
      await arrival
      client.destroy()
      await run.told
      return run
    }

    test.each(AT_HAND)('captures the status of a response made with %s', async (_, say) => {
      await using bare = await serveApp((ctx) => void say(ctx))
      const plain = await rawRequest(bare.port, '/', [], 'POST')
      const run = await leaveThen(say)
      const { status } = answerOf(run.ends[0])
      expect(`HTTP/1.1 ${status}`).toBe(plain.head[0]?.slice(0, 12))
    })

    test('does not store a response whose stream begins then', async () => {
      const run = await leaveThen(body(() => new Readable({ read() {} }), 201))
      expect(run.ends).toMatchObject([{ type: 'not-retained', head: { status: 201 } }])
    })

    test('reports an error that the handler throws', async () => {
      const error = thrown(422, 'no')
      const run = await leaveThen(() => {
        throw error
      })
      expect(run.ends).toEqual([{ type: 'failed', error }])
    })

    test('reports the error of the handler, not the response that an outer middleware makes from it', async () => {
      const error = thrown(422, 'no')
      const run = runAll(core)
      const { promise: catching, resolve: caught } = deferred<Koa.Context>()
      const render: Koa.Middleware = async (ctx, next) => {
        try {
          await next()
        } catch {
          caught(ctx)
          await once(ctx.res, 'close')
          ctx.body = 'too late'
        }
      }
      await using server = await serveApp(render, protect(), () => {
        throw error
      })
      const { client } = post(server.port)
      await catching
      client.destroy()
      expect(await run.told).toEqual({ type: 'failed', error })
      await settle()
      expect(run.ends).toHaveLength(1)
    })

    test('waits a limited time for a handler that never writes to ctx.res', async () => {
      const run = runAll(core, 'at once', { graceMs: 5 })
      await using server = await serveApp(protect(), (ctx) => {
        ctx.respond = false
        client.destroy()
      })
      const { client } = post(server.port)
      expect(await run.told).toEqual({ type: 'unanswered' })
    })
  })
})
