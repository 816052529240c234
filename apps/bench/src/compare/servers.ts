// The servers of the rows. All respond with the product, and differ in what is in front of it.
import type { RequestListener } from 'node:http'
import { createStampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'
import { redisStore } from '@stampede/redis'
import apicache from 'apicache'
import express, { type Express, type RequestHandler } from 'express'
import express4 from 'express4'
import { Redis } from 'ioredis'
import Koa from 'koa'
import koaCash from 'koa-cash'
import { LRUCache } from 'lru-cache'
import { BODY, FIELDS } from '../lib/product.ts'

/** The function that a handler calls for the product. Its calls are counted. */
export type Origin = () => object

type Listener = RequestListener | Promise<RequestListener>
type Serve = (origin: Origin, redisUrl: string) => Listener

const ttlMs = 3_600_000

const ready: RequestHandler = (_req, res) => {
  res.writeHead(200, FIELDS)
  res.end(BODY)
}

function shop(app: Express, origin: Origin, ...inFront: RequestHandler[]): Express {
  for (const layer of inFront) app.use(layer)
  app.get('/products/:id', (_req, res) => void res.json(origin()))
  app.get('/private/:id', (_req, res) => void res.set('Cache-Control', 'private').json(origin()))
  return app
}

function anyMethod(origin: Origin, ...inFront: RequestHandler[]): Express {
  const app = express()
  for (const layer of inFront) app.use(layer)
  return app.use((_req, res) => void res.json(origin()))
}

/** Reads the body of a request, and makes a GET of it. */
const readAsGet: RequestHandler = async (req, _res, next) => {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk)
  req.body = Buffer.concat(chunks)
  req.method = 'GET'
  delete req.headers['content-length']
  next()
}

function koaShop(origin: Origin, ...inFront: Koa.Middleware[]): RequestListener {
  const app = new Koa()
  for (const layer of inFront) app.use(layer)
  app.use((ctx) => {
    ctx.body = origin()
  })
  return app.callback()
}

function orders(origin: Origin, ...inFront: RequestHandler[]): Express {
  const app = express().use(express.json())
  for (const layer of inFront) app.use(layer)
  app.post('/orders', (_req, res) => void res.status(201).json(origin()))
  return app
}

/** Gets the product from a data cache in a handler. Only these servers load the data caches. */
const getting =
  (id: string): Serve =>
  async (origin) => {
    const { memoryGet } = await import('./data-peers.ts')
    const get = memoryGet(id, origin)
    return express().get('/products/:id', async (req, res) => {
      res.json(await get(`product:${req.params.id}`))
    })
  }

const overRedis = (url: string, l1?: { maxBytes: number }) =>
  createStampede({ store: redisStore(new Redis(url)), ...(l1 && { l1 }) })

export const servers: Readonly<Record<string, Serve>> = {
  /** Express adds this field on a miss. The front stores it, so a hit has it too. */
  'node-floor': () => (_req, res) => {
    res.writeHead(200, { ...FIELDS, 'X-Powered-By': 'Express' })
    res.end(BODY)
  },
  front: (origin) => stampedeFront(shop(express(), origin), { ttlMs }),
  'express-used': () => express().use(ready),
  'express-floor': () => express().get('/products/:id', ready),
  'express-uncached': (origin) => shop(express(), origin),
  express: (origin) => shop(express(), origin, stampedeCache({ ttlMs })),
  'express-lru': (origin) => shop(express(), origin, bareCache()),
  bentocache: getting('bentocache'),
  cacheable: getting('cacheable'),
  'async-cache-dedupe': getting('async-cache-dedupe'),
  'redis-floor'(origin, redisUrl) {
    const redis = new Redis(redisUrl)
    return express().get('/products/:id', async (req, res) => {
      const key = `product:${req.params.id}`
      let body = await redis.getBuffer(key)
      if (body === null) {
        body = Buffer.from(JSON.stringify(origin()))
        await redis.set(key, body, 'PX', ttlMs)
      }
      res.writeHead(200, FIELDS)
      res.end(body)
    })
  },
  redis(origin, redisUrl) {
    const cache = stampedeCache({ stampede: overRedis(redisUrl, { maxBytes: 0 }), ttlMs })
    return express().get('/products/:id', cache, (_req, res) => void res.json(origin()))
  },
  'express4-floor': () => express4().use(ready),
  express4: (origin) => shop(express4(), origin, stampedeCache({ ttlMs })),
  /** With its memory store. It is made for Express 4. */
  apicache: (origin) => shop(express4(), origin, apicache.middleware('1 hour')),
  'koa-floor'() {
    const app = new Koa()
    app.use((ctx) => {
      ctx.set(FIELDS)
      ctx.body = BODY
    })
    return app.callback()
  },
  'koa-uncached': (origin) => koaShop(origin),
  koa: (origin) => koaShop(origin, koaCache({ ttlMs })),
  'koa-inner': (origin) => koaShop(origin, (_ctx, next) => next(), koaCache({ ttlMs })),
  /** On an LRU in memory, as its README shows. */
  'koa-cash'(origin) {
    const cache = new LRUCache<string, object>({ max: 10_000 })
    const get = async (key: string) => cache.get(key)
    const set = async (key: string, value: object) => void cache.set(key, value)
    const app = new Koa().use(koaCash({ maxAge: ttlMs, get, set }))
    app.use(async (ctx) => {
      if (await (ctx as unknown as { cashed(): Promise<boolean> }).cashed()) return
      ctx.body = origin()
    })
    return app.callback()
  },
  query: (origin) => anyMethod(origin, stampedeCache({ methods: ['GET', 'QUERY'], ttlMs })),
  'query-as-get': (origin) => anyMethod(origin, readAsGet, stampedeCache({ ttlMs })),
  orders: (origin) => orders(origin),
  'orders-idempotent'(origin, redisUrl) {
    const stampede = redisUrl === '' ? createStampede() : overRedis(redisUrl)
    return orders(origin, idempotency({ stampede, scope: () => 'all' }))
  },
}

interface Kept {
  readonly headers: ReturnType<Parameters<RequestHandler>[1]['getHeaders']>
  readonly body: Buffer
}

/** The smallest possible cache in one process: no HTTP rules, and a map of the running loads. */
function bareCache(): RequestHandler {
  const sizeCalculation = ({ body }: Kept) => body.length
  const kept = new LRUCache<string, Kept>({ maxSize: 2 ** 26, sizeCalculation, ttl: ttlMs })
  const inFlight = new Map<string, Promise<Kept>>()
  return (req, res, next) => {
    const key = req.originalUrl
    const send = ({ headers, body }: Kept) => void res.writeHead(200, headers).end(body)
    const found = kept.get(key)
    if (found !== undefined) return send(found)
    const running = inFlight.get(key)
    if (running !== undefined) return void running.then(send)
    let settle: (entry: Kept) => void = () => {}
    inFlight.set(
      key,
      new Promise((resolve) => {
        settle = resolve
      }),
    )
    const { end } = res
    Object.assign(res, {
      end(...args: unknown[]): unknown {
        const entry = { headers: res.getHeaders(), body: Buffer.from(String(args[0])) }
        kept.set(key, entry)
        inFlight.delete(key)
        settle(entry)
        return Reflect.apply(end, res, args as Parameters<typeof end>)
      },
    })
    next()
  }
}
