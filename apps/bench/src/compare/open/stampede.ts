// Stampede as a middleware before a handler, set up as in its guide.
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import type { RequestHandler } from 'express'
import { Redis } from 'ioredis'
import { DEADLINE_MS } from '../../torture/peer.ts'
import { ioredisOptions, listened } from '../../torture/peers/redis-options.ts'
import { type OpenSettings, sending } from './peer.ts'

export async function stampedeHandlers(settings: OpenSettings): Promise<RequestHandler[]> {
  const { redisUrl, ttlMs, staleMs, load } = settings
  const client = listened(new Redis(redisUrl, ioredisOptions({ client: 'guarded' })))
  const stampede = createStampede({ store: redisStore(client) })
  const cache = stampedeCache({
    stampede,
    ttlMs,
    staleWhileRevalidateMs: staleMs,
    staleIfErrorMs: staleMs,
    originTimeoutMs: DEADLINE_MS,
  })
  return [cache, sending(load)]
}
