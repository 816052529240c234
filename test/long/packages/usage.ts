// An app that uses every package. test/long/packages.test.ts compiles it as ES module and CommonJS.

import {
  createStampede,
  memoryStore,
  type Stampede,
  StampedeError,
  type StampedeStore,
} from '@stampede/core'
import type { createHttpCache } from '@stampede/core/adapter'
import { requestKey } from '@stampede/core/operator'
import { EventHub } from '@stampede/core/store'
import { ManualClock, ScriptedOrigin } from '@stampede/core/testing'
import { stampedeDashboard } from '@stampede/dashboard'
import * as expressCache from '@stampede/express'
import * as fastifyCache from '@stampede/fastify'
import * as honoCache from '@stampede/hono'
import * as koaCache from '@stampede/koa'
import { createLocks, type Lease, LockError } from '@stampede/locks'
import { stampedeMetrics } from '@stampede/metrics'
import { Idempotent, StampedeCache, StampedeModule } from '@stampede/nest'
import { stampedeFront } from '@stampede/node-http'
import { RequestExchange } from '@stampede/node-http/adapter'
import { observe } from '@stampede/operate'
import { instrumentStampede } from '@stampede/otel'
import { redisStore } from '@stampede/redis'
import { names } from '@stampede/redis/operator'
import { Barrier, lockStoreContract } from '@stampede/testkit'

import express from 'express'

import fastify from 'fastify'

import { Hono } from 'hono'

import type { Redis } from 'ioredis'

import Koa from 'koa'

export type Rest =
  | ReturnType<typeof createHttpCache>
  | EventHub<{ type: 'x'; key: string; internalKey: string }>
  | RequestExchange<object>
  | Barrier
export type Origin = ScriptedOrigin<number>
export const values = [
  EventHub,
  RequestExchange,
  Barrier,
  lockStoreContract,
  requestKey,
  ScriptedOrigin,
]

export const isOurs = (error: unknown): error is StampedeError | LockError =>
  error instanceof StampedeError || error instanceof LockError

export function main(redis: Redis): Promise<number> {
  const store: StampedeStore = redisStore(redis, { prefix: 'shop' })
  const stampede: Stampede = createStampede({ store, l1: { maxEntries: 10 } })
  const app = express()
  app.get('/', expressCache.stampedeCache({ stampede, ttlMs: 10 }), (_req, res) => {
    res.json({})
  })
  const scope = (req: { headers: object }) => String(Object.keys(req.headers).length)
  app.post('/', expressCache.idempotency({ stampede, scope }))
  fastify().register(fastifyCache.stampedeCache({ stampede, ttlMs: 10 }))
  new Hono().use(honoCache.stampedeCache({ stampede, ttlMs: 10 }))
  new Koa().use(koaCache.stampedeCache({ stampede, ttlMs: 10 }))
  StampedeModule.forRoot({ stampede })
  StampedeCache({ ttlMs: 10 })(class Products {})
  Idempotent({ scope })(class Payments {})
  stampedeFront(app, { stampede, ttlMs: 10 })
  stampedeMetrics({ stampede }).close()
  instrumentStampede()
  observe(stampede)
  app.use(stampedeDashboard({ stampede, authorize: 'insecure-local' }))
  names('shop')
  stampede.on('fill.committed', (event) => event.key.length)
  // Types that TypeScript does not find are `any`, and allow these lines.
  // @ts-expect-error
  expressCache.stampedeCache({ stampede, ttlMs: 'ten' })
  // @ts-expect-error
  koaCache.stampedeCache({ stampede, ttlMs: 'ten' })
  // @ts-expect-error
  StampedeCache({ ttlMs: 'ten' })
  // @ts-expect-error
  new ManualClock().advance('ten')
  return stampede.getOrSet('key', () => 42, { ttlMs: 10 })
}

export function hold(): Promise<bigint> {
  const locks = createLocks({ store: memoryStore() })
  return locks.run('key', (lease: Lease) => lease.fence)
}
