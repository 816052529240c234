// Stampede on Express 5, with Redis.
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import type { Opened, Settings } from '../peer.ts'
import { sendOnExpress } from './send.ts'

export async function open({ redisUrl, ttlMs, reply }: Settings): Promise<Opened> {
  const redis = new Redis(redisUrl, { lazyConnect: true }).on('error', () => {})
  const stampede = createStampede({ store: redisStore(redis) })
  const app = express()
  app.use(stampedeCache({ stampede, ttlMs }))
  app.all('/page', async (req, res) => sendOnExpress(res, await reply(req)))
  return { listener: app, purge: (path) => stampede.purge({ path }) }
}
