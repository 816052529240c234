// Server for many requests of one cold page. Usage: node crowd-server.js <stampede | express>.
// Express alone is the floor.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { stampedeCache } from '@stampede/express'
import express from 'express'
import { offer } from '../lib/child.ts'
import { BODY } from '../lib/product.ts'
import { blockedMs, watchBlocking } from './blocked.ts'

/** Milliseconds since 1970: two processes of one machine can compare them. */
const nowMs = (): number => performance.timeOrigin + performance.now()

const [, , subject] = process.argv
let arrived = 0
let originCalls = 0
let endOrigin: () => void = () => {}
let originEnds = Promise.resolve()

const app = express()
app.use((_req, _res, next) => {
  arrived += 1
  next()
})
if (subject === 'stampede') app.use(stampedeCache({ ttlMs: 60_000 }))
app.get('/items/:key', async (_req, res) => {
  originCalls += 1
  await originEnds
  res.type('json').send(BODY)
})
const server = createServer(app).listen(0, '127.0.0.1', 4_096)
server.keepAliveTimeout = 60_000
await once(server, 'listening')

offer({
  port: () => (server.address() as AddressInfo).port,
  hold() {
    arrived = 0
    originCalls = 0
    originEnds = new Promise((resolve) => {
      endOrigin = resolve
    })
  },
  arrived: () => arrived,
  async release(): Promise<number> {
    await watchBlocking()
    setImmediate(() => endOrigin())
    return nowMs()
  },
  seen: async () => ({ originCalls, blockedMs: await blockedMs() }),
})
