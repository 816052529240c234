// `idempotency` of Stampede, set up as in its guide.
import { createStampede } from '@stampede/core'
import { idempotency, rememberRawBody } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { expressHandlers } from '../handlers/express-handlers.ts'
import { listen } from './listen.ts'

export async function start(url: string): Promise<number> {
  const client = new Redis(url)
  client.on('error', () => {})
  const stampede = createStampede({ store: redisStore(client) })
  const guard = idempotency({
    stampede,
    scope: (req: express.Request) => req.get('x-user') ?? 'none',
    leaseMs: 1_500,
  })

  const app = express()
  const json = express.json({ verify: rememberRawBody })
  for (const { path, handler } of expressHandlers) app.post(path, json, guard, handler)
  return listen(app)
}
