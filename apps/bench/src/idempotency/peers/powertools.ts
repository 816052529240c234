// @aws-lambda-powertools/idempotency: a function wrapped by makeIdempotent, with its cache layer on Redis.
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
import { answerCall, type Call, type Result, sendResult } from '../handlers/value-answers.ts'
import { pathOf, WAYS } from '../orders.ts'
import { listen } from './listen.ts'

/** The time a Lambda has left is what its records in progress are trusted for. */
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
    const process = makeIdempotent((call: Call) => answerCall(call), {
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

/** What an API would make of the errors: the statuses that the header's draft names. */
function statusOf(error: unknown): number | undefined {
  if (error instanceof IdempotencyAlreadyInProgressError) return 409
  if (error instanceof IdempotencyItemAlreadyExistsError) return 409
  if (error instanceof IdempotencyValidationError) return 422
  if (error instanceof IdempotencyKeyError) return 400
  return undefined
}

export const start = (url: string): Promise<number> => startPowertools(url)
