// Middlewares for Express, and the same routes without one. Handlers are as in its documentation.
import { Readable } from 'node:stream'
import { createStampede } from '@stampede/core'
import { idempotency, rememberRawBody } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express, { type Request, type RequestHandler, type Response } from 'express'
import { getSharedIdempotencyService, idempotency as idempotencyOld } from 'express-idempotency'
import redisAdapter from 'express-idempotency-redis-adapter'
import { Redis } from 'ioredis'
import { createClient } from 'redis4'
import { listen } from '../../lib/http.ts'
import {
  BYTES,
  beginRun,
  chunksOf,
  FAILURE,
  FILE,
  LARGE,
  locationOf,
  order,
  pathOf,
  type Run,
  WAYS,
  type Way,
} from '../orders.ts'

const json = (res: Response, { id }: Run): unknown =>
  res.status(201).location(locationOf(id)).json(order(id))

const failing = (status: number) => (res: Response, run: Run) =>
  run.attempt > 1 ? json(res, run) : res.status(status).set('Retry-After', '1').json(FAILURE)

const responders: Readonly<Record<Way, (res: Response, run: Run) => unknown>> = {
  json,
  other: (res, { id }) => res.status(201).json({ other: id }),
  empty: (res, { id }) => res.status(201).location(locationOf(id)).end(),
  'no-content': (res) => res.sendStatus(204),
  binary: (res) => res.type('application/octet-stream').send(BYTES),
  stream: (res, { id }) => Readable.from(chunksOf(id)).pipe(res.type('text/plain; charset=utf-8')),
  redirect: (res, { id }) => res.redirect(303, locationOf(id)),
  file: (res) => res.sendFile(FILE),
  throws(res, run) {
    if (run.attempt === 1) throw new Error('the handler failed')
    json(res, run)
  },
  unavailable: failing(503),
  limited: failing(429),
  cookie: (res, run) => json(res.cookie('session', run.id), run),
  large: (res, { id }) => res.json({ id, text: LARGE }),
}

type Handler = (req: Request, res: Response) => Promise<void>

/** An app with every order route behind these middlewares. */
function orders(inFront: readonly RequestHandler[], wrap = (handler: Handler) => handler) {
  const app = express()
  for (const way of WAYS) {
    const handler: Handler = async (req, res) => {
      await responders[way](res, await beginRun(req.headers))
    }
    app.post(pathOf(way), ...inFront, wrap(handler))
  }
  return listen(app)
}

/** `idempotency` of Stampede, set up as in its guide. */
export async function startStampede(url: string): Promise<number> {
  const client = new Redis(url)
  client.on('error', () => {})
  const stampede = createStampede({ store: redisStore(client) })
  const scope = (req: Request) => req.get('x-user') ?? 'none'
  const guard = idempotency({ stampede, scope, leaseMs: 1_500 })
  return orders([express.json({ verify: rememberRawBody }), guard])
}

type Adapter = typeof import('express-idempotency-redis-adapter')['default']

/** express-idempotency with its Redis adapter, set up as in both READMEs. */
export async function startExpressIdempotency(url: string): Promise<number> {
  const client = createClient({ url })
  // Without a listener an outage ends the process. The listener is the application's duty.
  client.on('error', () => {})
  // The package is CommonJS, so the class is in `default` of its `require` result.
  const RedisAdapter = (redisAdapter as unknown as { default: Adapter }).default
  const dataAdapter = new RedisAdapter({ connectionInstance: client as never })
  await dataAdapter.connect()
  const guard = idempotencyOld({ dataAdapter: dataAdapter as never }) as never
  return orders([express.json(), guard], (handler) => async (req, res) => {
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

/** The floor: the same handlers without a library. It shows which rows a plain handler passes. */
export const startUnguarded = (): Promise<number> => orders([express.json()])
