// HTTP/2: the same cache on the compatibility objects of node:http2.

import { once } from 'node:events'
import { connect, createServer, type IncomingHttpHeaders } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/koa'
import Koa from 'koa'
import { expect, it } from 'vitest'

it('a Koa app on HTTP/2 is cached, also when the client sends conditions', async () => {
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
  expect((await get(conditions)).body).toBe('run 1')
  await expect.poll(async () => (await get()).head['cache-status']).toMatch(/hit/)
  expect((await get({ 'if-none-match': '"v"' })).head[':status']).toBe(304)
  expect(runs).toBe(1)
  await clock.advance(61_000)
  expect((await get(conditions)).body).toBe('r')
  expect(asked).toEqual([undefined, '"v"'])
  client.close()
  server.close()
})
