// @node-idempotency/core, called by an Express handler before and after its work, as in its README.
import { Idempotency, IdempotencyError } from '@node-idempotency/core'
import { idempotency2HttpCodeMap } from '@node-idempotency/shared'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import express, { type Request } from 'express'
import { type Result, respondToCall, sendResult } from '../handlers/value-handlers.ts'
import { pathOf, WAYS } from '../orders.ts'
import { listen } from './listen.ts'

export async function start(url: string): Promise<number> {
  const storage = new RedisStorageAdapter({ url })
  await storage.connect()
  const idempotency = new Idempotency(storage)
  const paramsOf = (req: Request) => ({
    method: req.method,
    headers: req.headers,
    body: req.body,
    path: req.originalUrl,
    options: { cacheKeyPrefix: `user-${req.get('x-user')}` },
  })

  const app = express()
  app.use(express.json())
  for (const way of WAYS) {
    app.post(pathOf(way), async (req, res) => {
      const params = paramsOf(req)
      try {
        const before = await idempotency.onRequest(params)
        if (before?.error) throw new Error('the stored error')
        if (before) return sendResult(res, { ...before.additional, body: before.body } as Result)
      } catch (error) {
        if (!(error instanceof IdempotencyError)) throw error
        const status = idempotency2HttpCodeMap[error.code as never] ?? 500
        return void res.status(status).json({ error: error.message })
      }
      try {
        const result = await respondToCall({ way, headers: req.headers, body: req.body })
        const { body, ...additional } = result
        await idempotency.onResponse(params, { body, additional })
        sendResult(res, result)
      } catch (error) {
        await idempotency.onResponse(params, { error: String(error) })
        throw error
      }
    })
  }
  return listen(app)
}
