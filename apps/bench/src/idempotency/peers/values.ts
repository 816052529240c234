// Libraries that guard functions. The order routes return an API Gateway result, which Express
// sends.
import type { IncomingHttpHeaders } from 'node:http'
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency'
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache'
import { Idempotency, IdempotencyError } from '@node-idempotency/core'
import { idempotency2HttpCodeMap } from '@node-idempotency/shared'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import { createClient } from '@redis/client'
import express, { type Request, type Response } from 'express'
import { listen } from '../../lib/http.ts'
import {
  BYTES,
  beginRun,
  FAILURE,
  LARGE,
  locationOf,
  order,
  pathOf,
  WAYS,
  type Way,
} from '../orders.ts'

interface Call {
  readonly way: Way
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
}

/** JSON can carry this type. These libraries store it as JSON. */
type Result = {
  statusCode: number
  headers: Record<string, string>
  body: string
  isBase64Encoded: boolean
}

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' }

function result(statusCode: number, headers: Record<string, string>, body: unknown = ''): Result {
  const isBase64Encoded = Buffer.isBuffer(body)
  if (isBase64Encoded)
    return { statusCode, headers, body: body.toString('base64'), isBase64Encoded }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { statusCode, headers, body: text, isBase64Encoded }
}

async function respond({ way, headers }: Call): Promise<Result> {
  const { id, attempt } = await beginRun(headers)
  const location = locationOf(id)
  const isFirst = attempt === 1
  if (way === 'throws' && isFirst) throw new Error('the handler failed')
  const results: Partial<Record<Way, Result>> = {
    other: result(201, JSON_TYPE, { other: id }),
    empty: result(201, { location }),
    'no-content': result(204, {}),
    binary: result(200, { 'content-type': 'application/octet-stream' }, BYTES),
    redirect: result(303, { location }),
    ...(isFirst && { unavailable: result(503, JSON_TYPE, FAILURE) }),
    ...(isFirst && { limited: result(429, JSON_TYPE, FAILURE) }),
    ...(way === 'large' && { large: result(200, JSON_TYPE, { id, text: LARGE }) }),
  }
  return results[way] ?? result(201, { ...JSON_TYPE, location }, order(id))
}

function send(res: Response, { statusCode, headers, body, isBase64Encoded }: Result): void {
  res.writeHead(statusCode, headers).end(body, isBase64Encoded ? 'base64' : 'utf8')
}

function orders(handle: (way: Way) => (req: Request, res: Response) => Promise<unknown>) {
  const app = express().use(express.json())
  for (const way of WAYS) {
    const handler = handle(way)
    app.post(pathOf(way), async (req, res) => void (await handler(req, res)))
  }
  return listen(app)
}

/** @node-idempotency/core, called before and after the work of a handler, as in its README. */
export async function startCore(url: string): Promise<number> {
  const storage = new RedisStorageAdapter({ url })
  await storage.connect()
  const idempotency = new Idempotency(storage)
  return orders((way) => async (req, res) => {
    const { method, headers, body, originalUrl: path } = req
    const options = { cacheKeyPrefix: `user-${req.get('x-user')}` }
    const params = { method, headers, body, path, options }
    try {
      const before = await idempotency.onRequest(params)
      if (before?.error) throw new Error('the stored error')
      if (before) return send(res, { ...before.additional, body: before.body } as Result)
    } catch (error) {
      if (!(error instanceof IdempotencyError)) throw error
      const status = idempotency2HttpCodeMap[error.code as never] ?? 500
      return res.status(status).json({ error: error.message })
    }
    try {
      const made = await respond({ way, headers, body })
      const { body: stored, ...additional } = made
      await idempotency.onResponse(params, { body: stored, additional })
      send(res, made)
    } catch (error) {
      await idempotency.onResponse(params, { error: String(error) })
      throw error
    }
  })
}

/** A record in progress is trusted for the time that the Lambda has left. */
const REMAINING_MS = 1_500

/** The statuses that the draft of the header names for these errors. */
const STATUSES: Readonly<Record<string, number>> = {
  IdempotencyAlreadyInProgressError: 409,
  IdempotencyItemAlreadyExistsError: 409,
  IdempotencyValidationError: 422,
  IdempotencyKeyError: 400,
}

/** @aws-lambda-powertools/idempotency: `makeIdempotent` with its cache layer on Redis. */
async function powertools(url: string, validation: object): Promise<number> {
  const client = createClient({ url })
  client.on('error', () => {})
  await client.connect()
  const persistenceStore = new CachePersistenceLayer({ client: client as never })
  return orders((way) => {
    const config = new IdempotencyConfig({
      eventKeyJmesPath: 'headers.["x-user", "idempotency-key"]',
      throwOnNoIdempotencyKey: true,
      ...validation,
    })
    config.registerLambdaContext({ getRemainingTimeInMillis: () => REMAINING_MS } as never)
    const options = { persistenceStore, config, keyPrefix: way }
    const process = makeIdempotent((call: Call) => respond(call), options)
    return async (req, res) => {
      try {
        send(res, (await process({ way, headers: req.headers, body: req.body })) as Result)
      } catch (error) {
        const { name } = error as Error
        if (STATUSES[name] === undefined) throw error
        res.status(STATUSES[name]).json({ error: name })
      }
    }
  })
}

export const startPowertools = (url: string): Promise<number> => powertools(url, {})
export const startValidated = (url: string): Promise<number> =>
  powertools(url, { payloadValidationJmesPath: 'body' })
