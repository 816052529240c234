// A client that wants a few bytes of a large response, or the last bytes of one, on a connection
// that it uses again.

import { Agent, get } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/express'
import express from 'express'
import { expect, it } from 'vitest'
import { serve } from '../../packages/node-http/src/testing/raw-client.ts'

const MIB = 1024 * 1024
const FRAMED = { 'accept-ranges': 'bytes', 'content-type': 'application/octet-stream' }

function ask(url: string, agent: Agent, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const request = get(url, { agent, headers }, async (response) => {
      resolve({ status: response.statusCode ?? 0, body: await text(response) })
    })
    request.on('error', reject)
  })
}

it('gets its part and the next response, although the handler reports the early end as an error', async () => {
  const errors: unknown[] = []
  const app = express().use(stampedeCache({ ttlMs: 60_000 }))
  app.get('/large/:n', async (_req, res) => {
    res.set({ ...FRAMED, 'content-length': String(48 * MIB) })
    await pipeline(Readable.from(Array.from({ length: 48 }, () => Buffer.alloc(MIB, 97))), res)
  })
  app.get('/small', (_req, res) => void res.send('small'))
  app.use((error: unknown, _req: unknown, _res: unknown, next: (error: unknown) => void) => {
    errors.push(error)
    next(error)
  })
  await using server = await serve(app)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const base = `http://127.0.0.1:${server.port}`
  for (let i = 0; i < 3; i++) {
    const part = await ask(`${base}/large/${i}`, agent, { range: 'bytes=0-3' })
    expect(part).toEqual({ status: 206, body: 'aaaa' })
    expect(await ask(`${base}/small?${i}`, agent)).toEqual({ status: 200, body: 'small' })
  }
  await expect.poll(() => errors.length).toBe(3)
  agent.destroy()
})

it('leaves no source open that is piped through a transform', async () => {
  let source: Readable | undefined
  const app = express().use(stampedeCache({ ttlMs: 60_000 }))
  app.get('/large', (_req, res) => {
    res.set({ ...FRAMED, 'content-length': String(8 * MIB) })
    source = Readable.from(Array.from({ length: 8 }, () => Buffer.alloc(MIB, 97)))
    source.pipe(new PassThrough()).pipe(res)
  })
  await using server = await serve(app)
  const agent = new Agent()
  const url = `http://127.0.0.1:${server.port}/large`
  expect(await ask(url, agent, { range: 'bytes=0-3' })).toEqual({ status: 206, body: 'aaaa' })
  await expect.poll(() => source?.destroyed).toBe(true)
})

it('refreshes a stale entry by a range of its last bytes', async () => {
  const clock = new ManualClock()
  const stampede = createStampede({ clock })
  let runs = 0
  const app = express()
  app.use(stampedeCache({ stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000, jitter: 0 }))
  app.get('/page', (_req, res) => {
    runs += 1
    res.set(FRAMED).send(`version ${runs}`)
  })
  await using server = await serve(app)
  const agent = new Agent({ keepAlive: true })
  const url = `http://127.0.0.1:${server.port}/page`
  expect((await ask(url, agent)).body).toBe('version 1')
  await clock.advance(2_000)
  const last = { range: 'bytes=-1' }
  expect(await ask(url, agent, last)).toEqual({ status: 206, body: '1' })
  await expect.poll(() => runs).toBe(2)
  await expect.poll(async () => (await ask(url, agent, last)).body).toBe('2')
  agent.destroy()
  await stampede.close()
})
