// Servers of the paths. All apps have the same routes, and differ in the middleware before them.

import type { RequestListener } from 'node:http'
import { createStampede, type Stampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import express, { type Express, type RequestHandler } from 'express'
import { Redis } from 'ioredis'
import Koa from 'koa'
import { LRUCache } from 'lru-cache'
import { product } from '../compare/lib/product.ts'
import type { ServerId } from './paths.ts'

const TTL_MS = 3_600_000

export function listenerOf(id: ServerId, redisUrl: string): RequestListener {
  const stampede = redisUrl === '' ? createStampede() : overRedis(redisUrl)
  switch (id) {
    case 'express':
      return shop()
    case 'express-lru':
      return shop(bareCache())
    case 'express-cached':
      return shop(stampedeCache({ stampede, ttlMs: TTL_MS }))
    case 'koa':
      return koaShop()
    case 'koa-cached':
      return koaShop(koaCache({ stampede, ttlMs: TTL_MS }))
    case 'koa-cached-inner':
      return koaShop((_ctx, next) => next(), koaCache({ stampede, ttlMs: TTL_MS }))
    case 'orders':
      return orders()
    case 'orders-idempotent':
      return orders(idempotency({ stampede, scope: () => 'all' }))
  }
}

const overRedis = (url: string): Stampede =>
  createStampede({ store: redisStore(new Redis(url), { prefix: `paths-${process.pid}` }) })

function shop(...inFront: RequestHandler[]): Express {
  const app = express().disable('x-powered-by')
  for (const layer of inFront) app.use(layer)
  app.get('/products/:id', (_req, res) => {
    res.json(product)
  })
  app.get('/private/:id', (_req, res) => {
    res.set('Cache-Control', 'private').json(product)
  })
  return app
}

function koaShop(...inFront: Koa.Middleware[]): RequestListener {
  const app = new Koa()
  for (const layer of inFront) app.use(layer)
  app.use((ctx) => {
    ctx.body = product
  })
  return app.callback()
}

function orders(...inFront: RequestHandler[]): Express {
  const app = express().disable('x-powered-by').use(express.json())
  for (const layer of inFront) app.use(layer)
  app.post('/orders', (_req, res) => {
    res.status(201).json(product)
  })
  return app
}

interface Kept {
  readonly headers: ReturnType<Parameters<RequestHandler>[1]['getHeaders']>
  readonly body: Buffer
}

/** The smallest possible cache in one process: no HTTP rules, and a map of the running loads. */
function bareCache(): RequestHandler {
  const kept = new LRUCache<string, Kept>({
    maxSize: 64 * 1024 * 1024,
    sizeCalculation: ({ body }) => body.length,
    ttl: TTL_MS,
  })
  const inFlight = new Map<string, Promise<Kept>>()
  return (req, res, next) => {
    const key = req.originalUrl
    const send = ({ headers, body }: Kept) => res.writeHead(200, headers).end(body)
    const found = kept.get(key)
    if (found !== undefined) {
      send(found)
      return
    }
    const running = inFlight.get(key)
    if (running !== undefined) {
      void running.then(send)
      return
    }
    const { promise, resolve } = settleable<Kept>()
    inFlight.set(key, promise)
    const { end } = res
    Object.assign(res, {
      end(...args: unknown[]): unknown {
        const entry = { headers: res.getHeaders(), body: Buffer.from(String(args[0])) }
        kept.set(key, entry)
        inFlight.delete(key)
        resolve(entry)
        return Reflect.apply(end, res, args as Parameters<typeof end>)
      },
    })
    next()
  }
}

function settleable<T>() {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
