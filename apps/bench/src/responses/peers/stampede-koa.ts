// Stampede on Koa 3, with Redis.
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import Koa from 'koa'
import type { Opened, Settings } from '../peer.ts'
import { sendOnKoa } from './send.ts'

export async function open({ redisUrl, ttlMs, reply }: Settings): Promise<Opened> {
  const redis = new Redis(redisUrl, { lazyConnect: true }).on('error', () => {})
  const stampede = createStampede({ store: redisStore(redis) })
  const app = new Koa()
  app.silent = true
  app.use(stampedeCache({ stampede, ttlMs }))
  app.use(async (ctx) => sendOnKoa(ctx, await reply(ctx.request)))
  return { listener: app.callback(), purge: (path) => stampede.purge({ path }) }
}
