// HTTP/2: the same cache on the compatibility objects of node:http2.

import { EventEmitter, once } from 'node:events'
import { get } from 'node:http'
import {
  connect,
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2'
import { text } from 'node:stream/consumers'
import { getRequestListener } from '@hono/node-server'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache as fastifyCache } from '@stampede/fastify'
import { stampedeCache as honoCache } from '@stampede/hono'
import { stampedeCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'
import fastify, { type FastifyInstance } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { expect, it, onTestFinished, vi } from 'vitest'
import { serveHttp2 } from '../../packages/node-http/src/testing/raw-client.ts'

it('a Koa app on HTTP/2 caches responses, also when the client sends conditions', async () => {
  let runs = 0
  const asked: unknown[] = []
  const clock = new ManualClock()
  const app = new Koa()
  app.use(stampedeCache({ stampede: createStampede({ clock }), ttlMs: 60_000 }))
  app.use((ctx) => {
    runs += 1
    asked.push(ctx.headers['if-none-match'])
    ctx.set('ETag', '"v"')
    ctx.body = `run ${runs}`
    if (ctx.fresh) ctx.status = 304
  })
  await using http2 = await serveHttp2(app.callback())
  const { client } = http2
  const get = (headers: Record<string, string> = {}) =>
    new Promise<{ head: IncomingHttpHeaders; body: string }>((resolve, reject) => {
      const stream = client.request({ ':path': '/', ...headers }).setEncoding('utf8')
      let head: IncomingHttpHeaders = {}
      let body = ''
      stream.on('response', (received) => {
        head = received
      })
      stream.on('data', (chunk) => {
        body += chunk
      })
      stream.on('error', reject).on('end', () => resolve({ head, body }))
    })
  const conditions = { 'if-none-match': '"other"', range: 'bytes=0-0' }
  expect(await get(conditions)).toMatchObject({ head: { ':status': 206 }, body: 'r' })
  await expect.poll(async () => (await get()).head['cache-status']).toMatch(/hit/)
  expect((await get({ 'if-none-match': '"v"' })).head[':status']).toBe(304)
  expect(runs).toBe(1)
  await clock.advance(61_000)
  expect((await get(conditions)).body).toBe('r')
  expect(asked).toEqual([undefined, '"v"'])
})

it('a redirect to the same URL in lower case is not stored for an :authority in capitals', async () => {
  const app = new Koa()
  app.use(stampedeCache({ stampede: createStampede(), ttlMs: 60_000 }))
  app.use((ctx) => {
    if (ctx.req.headers[':authority'] === 'a.test') ctx.body = 'the page'
    else {
      ctx.status = 301
      ctx.set('Location', 'http://a.test/')
    }
  })
  await using http2 = await serveHttp2(app.callback())
  const { client } = http2
  const get = async (authority: string): Promise<IncomingHttpHeaders> => {
    const stream = client.request({ ':path': '/', ':authority': authority }).resume()
    const [head] = await once(stream, 'response')
    return head
  }
  const redirect = await get('A.test')
  expect([redirect[':status'], redirect['cache-status']]).toEqual([
    301,
    'Stampede; fwd=uri-miss; fwd-status=301; detail=self-redirect',
  ])
  expect((await get('a.test'))[':status']).toBe(200)
})

it('waiters on HTTP/2 get a response when the first client of a Koa app has left', async () => {
  const app = new Koa()
  // Time does not pass, so no deadline ends the wait.
  app.use(stampedeCache({ stampede: createStampede({ clock: new ManualClock() }), ttlMs: 60_000 }))
  const steps = new EventEmitter()
  let runs = 0
  app.use(async (ctx) => {
    runs += 1
    if (runs === 1) {
      steps.emit('running')
      await once(ctx.res, 'close')
      steps.emit('left')
    }
    ctx.body = `run ${runs}`
  })
  await using http2 = await serveHttp2(app.callback())
  const { client } = http2
  const leader = client.request({ ':path': '/' }).on('error', () => {})
  await once(steps, 'running')
  const waiting = client.request({ ':path': '/' })
  // The server has read the second request when it responds to this one.
  await once(client.request({ ':method': 'POST', ':path': '/' }).end().resume(), 'response')
  const left = once(steps, 'left')
  leader.close(constants.NGHTTP2_CANCEL)
  await left
  expect(await text(waiting)).toMatch(/^run \d$/)
})

type Http2Listener = (req: Http2ServerRequest, res: Http2ServerResponse) => unknown

/** Asks an app on HTTP/2 for one path several times at once. Rejections: a stream was reset. */
async function ask(
  listener: Http2Listener,
  clients: number,
): Promise<PromiseSettledResult<string>[]> {
  await using http2 = await serveHttp2(listener)
  const { client } = http2
  const asked = Array.from({ length: clients }, () => text(client.request({ ':path': '/' })))
  return await Promise.allSettled(asked)
}

const BROKEN = {
  status: 'rejected',
  reason: expect.objectContaining({ message: expect.stringContaining('NGHTTP2_INTERNAL_ERROR') }),
}

/** Sends `half`, and fails after that. */
function failingBody(): ReadableStream {
  return new ReadableStream({
    async pull(controller) {
      controller.enqueue(new TextEncoder().encode('half'))
      await new Promise(setImmediate)
      controller.error(new Error('broken'))
    },
  })
}

it.each([
  ['a body', {}],
  ['a body with trailers', { trailer: 'x-sum' }],
])('Hono resets the HTTP/2 stream when %s breaks off', async (_, headers) => {
  const app = new Hono()
  app.use(honoCache({ stampede: createStampede(), ttlMs: 60_000 }))
  app.get('/', () => new Response(failingBody(), { headers }))
  const listener = getRequestListener(app.fetch) as unknown as Http2Listener
  expect(await ask(listener, 1)).toEqual([BROKEN])
})

it('a waiter on HTTP/2 goes on at once when the listener fails in the middle of its body', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  onTestFinished(() => {
    vi.useRealTimers()
    warned.mockRestore()
  })
  const stampede = createStampede()
  let runs = 0
  const front = stampedeFront(
    async (_req: Http2ServerRequest, res: Http2ServerResponse) => {
      runs += 1
      if (runs > 1) return void res.end('whole')
      res.write('half')
      while (stampede.stats().collapsed === 0) await new Promise(setImmediate)
      throw new Error('broken')
    },
    { stampede, ttlMs: 60_000 },
  )
  expect(await ask(front, 2)).toEqual([BROKEN, { status: 'fulfilled', value: 'whole' }])
})

it('a hit on HTTP/2 has the body that Koa sends for a status without one', async () => {
  const app = new Koa()
  app.use(stampedeCache({ stampede: createStampede(), ttlMs: 60_000 }))
  app.use((ctx) => {
    ctx.status = 200
  })
  const listener = app.callback() as unknown as Http2Listener
  const sent = { status: 'fulfilled', value: '200' }
  expect(await ask(listener, 2)).toEqual([sent, sent])
})

it('a background refresh on HTTP/2 runs a listener that sends trailers', async () => {
  const clock = new ManualClock()
  const stampede = createStampede({ clock })
  const front = stampedeFront(
    (_req: Http2ServerRequest, res: Http2ServerResponse) => {
      res.setHeader('trailer', 'x-sum')
      res.write('a')
      res.addTrailers({ 'x-sum': '1' })
      res.end('b')
    },
    { stampede, ttlMs: 60_000, staleWhileRevalidateMs: 60_000 },
  )
  await ask(front, 1)
  await clock.advance(61_000)
  expect(await ask(front, 1)).toEqual([{ status: 'fulfilled', value: 'ab' }])
  await expect.poll(() => stampede.stats().fills.committed).toBe(2)
})

it.each([
  ['HTTP/1', false],
  ['HTTP/2', true],
] as const)(
  'Fastify stores no web stream that stopped because its client left: %s',
  async (_, isHttp2) => {
    const app: FastifyInstance = isHttp2 ? (fastify({ http2: true }) as never) : fastify()
    const stampede = createStampede()
    app.register(fastifyCache({ stampede, ttlMs: 60_000 }))
    const steps = new EventEmitter()
    let runs = 0
    app.get('/', (_request, reply) => {
      runs += 1
      const isFirst = runs === 1
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('half'))
          if (isFirst) return
          controller.enqueue(new TextEncoder().encode(' and half'))
          controller.close()
        },
        cancel: () => void steps.emit('cancelled'),
      })
      return reply.send(body)
    })
    const url = await app.listen({ port: 0 })
    const client = isHttp2 ? connect(url) : undefined
    client?.on('error', () => {})
    const ask = () => client?.request({ ':path': '/' }) ?? get(url).on('error', () => {})
    const leader = ask().on('error', () => {})
    const [first] = await once(leader, 'response')
    const cancelled = once(steps, 'cancelled')
    await once(isHttp2 ? leader : first.on('error', () => {}), 'data')
    leader.destroy()
    await cancelled
    const read = async () => {
      const request = ask()
      const [response] = await once(request, 'response')
      return text(isHttp2 ? request : response)
    }
    expect([await read(), await read()]).toEqual(['half and half', 'half and half'])
    client?.close()
    await app.close()
  },
)
