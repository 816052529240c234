// @aws-lambda-powertools/idempotency: `makeIdempotent` around a function, with its cache layer on
// Redis.
import {
  IdempotencyAlreadyInProgressError,
  IdempotencyConfig,
  IdempotencyItemAlreadyExistsError,
  IdempotencyKeyError,
  IdempotencyValidationError,
  makeIdempotent,
} from '@aws-lambda-powertools/idempotency'
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache'
import { createClient } from '@redis/client'
import express from 'express'
import { type Call, type Result, respondToCall, sendResult } from '../handlers/value-handlers.ts'
import { pathOf, WAYS } from '../orders.ts'
import { listen } from './listen.ts'

/** A record in progress is trusted for the time that the Lambda has left. */
const REMAINING_MS = 1_500

export async function startPowertools(url: string, validation?: string): Promise<number> {
  const client = createClient({ url })
  client.on('error', () => {})
  await client.connect()
  const persistenceStore = new CachePersistenceLayer({ client: client as never })

  const app = express()
  app.use(express.json())
  for (const way of WAYS) {
    const config = new IdempotencyConfig({
      eventKeyJmesPath: 'headers.["x-user", "idempotency-key"]',
      throwOnNoIdempotencyKey: true,
      ...(validation === undefined ? {} : { payloadValidationJmesPath: validation }),
    })
    config.registerLambdaContext({ getRemainingTimeInMillis: () => REMAINING_MS } as never)
    const process = makeIdempotent((call: Call) => respondToCall(call), {
      persistenceStore,
      config,
      keyPrefix: way,
    })
    app.post(pathOf(way), async (req, res) => {
      try {
        const call = { way, headers: req.headers, body: req.body }
        sendResult(res, (await process(call)) as Result)
      } catch (error) {
        const status = statusOf(error)
        if (status === undefined) throw error
        res.status(status).json({ error: (error as Error).name })
      }
    })
  }
  return listen(app)
}

/** Maps the errors to the statuses that the draft of the header names. */
function statusOf(error: unknown): number | undefined {
  if (error instanceof IdempotencyAlreadyInProgressError) return 409
  if (error instanceof IdempotencyItemAlreadyExistsError) return 409
  if (error instanceof IdempotencyValidationError) return 422
  if (error instanceof IdempotencyKeyError) return 400
  return undefined
}

export const start = (url: string): Promise<number> => startPowertools(url)
