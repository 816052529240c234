// HTTP/2: the same cache on the compatibility objects of node:http2.

import { EventEmitter, once } from 'node:events'
import { connect, constants, createServer, type IncomingHttpHeaders } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/koa'
import Koa from 'koa'
import { expect, it } from 'vitest'

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
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
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
  client.close()
  server.close()
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
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
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
  client.close()
  server.close()
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
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const leader = client.request({ ':path': '/' }).on('error', () => {})
  await once(steps, 'running')
  const waiting = client.request({ ':path': '/' })
  // The server has read the second request when it responds to this one.
  await once(client.request({ ':method': 'POST', ':path': '/' }).end().resume(), 'response')
  const left = once(steps, 'left')
  leader.close(constants.NGHTTP2_CANCEL)
  await left
  expect(await text(waiting)).toMatch(/^run \d$/)
  client.close()
  server.close()
})
