// Server for many requests of one cold page. Express alone is the floor.
import { stampedeCache } from '@stampede/express'
import express from 'express'
import { listen } from '../lib/http.ts'
import { BODY } from '../lib/product.ts'
import { blockedMs, hold, origin, watchBlocking } from './held-origin.ts'

export async function start(subject: string) {
  const app = express()
  app.use((_req, _res, next) => {
    origin.arrived += 1
    next()
  })
  if (subject === 'stampede') app.use(stampedeCache({ ttlMs: 60_000 }))
  app.get('/items/:key', async (_req, res) => {
    origin.calls += 1
    await origin.hasEnded
    res.type('json').send(BODY)
  })
  const port = await listen(app)
  return {
    port: () => port,
    hold,
    arrived: () => origin.arrived,
    /** Returns when the origin ended, in milliseconds since 1970. */
    async release(): Promise<number> {
      await watchBlocking()
      setImmediate(() => origin.end())
      return performance.timeOrigin + performance.now()
    },
    seen: async () => ({ originCalls: origin.calls, blockedMs: await blockedMs() }),
  }
}
