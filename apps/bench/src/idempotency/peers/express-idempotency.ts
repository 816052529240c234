// express-idempotency with its Redis adapter, set up as in both READMEs.
import express from 'express'
import { getSharedIdempotencyService, idempotency } from 'express-idempotency'
import redisAdapter from 'express-idempotency-redis-adapter'
import { createClient } from 'redis4'
import { expressHandlers } from '../handlers/express-handlers.ts'
import { listen } from './listen.ts'

type Adapter = typeof import('express-idempotency-redis-adapter')['default']
// The package is CommonJS, so the class is in `default` of its `require` result.
const RedisAdapter = (redisAdapter as unknown as { default: Adapter }).default

export async function start(url: string): Promise<number> {
  const client = createClient({ url })
  // Without a listener an outage ends the process. The listener is the application's duty.
  client.on('error', () => {})
  const dataAdapter = new RedisAdapter({ connectionInstance: client as never })
  await dataAdapter.connect()

  const app = express()
  app.use(express.json())
  app.use(idempotency({ dataAdapter: dataAdapter as never }) as never)
  for (const { path, handler } of expressHandlers) {
    app.post(path, async (req, res) => {
      const service = getSharedIdempotencyService()
      if (service.isHit(req as never)) return
      try {
        await handler(req, res)
      } catch (error) {
        await service.reportError(req as never)
        throw error
      }
    })
  }
  return listen(app)
}
