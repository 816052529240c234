// `stampedeCache` on Express 5 with Redis and without L1.
import type { RequestListener } from 'node:http'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin, redisUrl: string): RequestListener {
  const store = redisStore(new Redis(redisUrl))
  const stampede = createStampede({ store, l1: { maxBytes: 0 } })
  const app = express()
  app.get('/products/:id', stampedeCache({ stampede, ttlMs: 3_600_000 }), (_req, res) => {
    res.json(origin())
  })
  return app
}
