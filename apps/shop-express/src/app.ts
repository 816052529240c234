// The shop as an Express app. Everything it says about caching is the line with `stampedeCache` and the purge
// of what an order changes; everything about idempotency keys is the line with `idempotency`.

import type { Stampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import {
  type Answer,
  answerError,
  createLab,
  type Lab,
  noSuchPage,
  type OrderHandlers,
  type Pages,
  type ProductHandlers,
  readCustomer,
  type Shop,
} from '@stampede/shop'
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type RequestHandler,
  type Response,
  type Router,
} from 'express'

export interface AppOptions {
  readonly shop: Shop
  readonly stampede: Stampede
  readonly pages: Pages
  /** Where the cache lives, for the page to show. */
  readonly store: 'memory' | 'Redis'
}

/** Fresh for ten seconds; then stale for thirty while it is refreshed, or for sixty if it cannot be. */
const LIFETIMES = { ttlMs: 10_000, staleWhileRevalidateMs: 30_000, staleIfErrorMs: 60_000 }

export function createApp({ shop, stampede, pages, store }: AppOptions): Express {
  const about = { framework: 'Express', store, ...LIFETIMES, cacheStats: () => stampede.stats() }
  const app = express()
  app.disable('x-powered-by')

  // The lab comes first: it looks at the cache from outside.
  app.use('/api/lab', labRoutes(createLab(shop, about)))

  // Orders come before the cache: what a customer bought is nobody else's.
  app.use('/api/orders', orderRoutes(shop.orders, stampede))

  // Each page is tagged with what it shows, so that an order can purge what it changes. A change of price does not, as by default
  // it would: the page shows how one comes through by time alone.
  app.use(
    '/api',
    stampedeCache({
      stampede,
      ...LIFETIMES,
      invalidateOn: 'never',
      tags: (req) => [pageTag(req, shownOn(req.originalUrl))],
    }),
  )
  app.use('/api/products', productRoutes(shop.productsAt('/api')))

  // The same handlers without the cache, for comparison.
  app.use('/uncached/api/products', productRoutes(shop.productsAt('/uncached/api')))

  for (const [path, page] of pages) app.get(path, (_req, res) => send(res, page))
  app.use((_req, res) => send(res, noSuchPage()))
  app.use(failed)
  return app
}

function productRoutes({ list, show, change }: ProductHandlers): Router {
  return express
    .Router()
    .get('/', (req, res) => send(res, list(req)))
    .get('/:id', (req: Request<{ id: string }>, res) => send(res, show(req, req.params.id)))
    .put('/:id', (req: Request<{ id: string }>, res) => send(res, change(req, req.params.id)))
}

function orderRoutes({ admit, place, list, show }: OrderHandlers, stampede: Stampede): Router {
  const admitted: RequestHandler = (req, _res, next) => {
    admit(req)
    next()
  }
  // Elsewhere a key is required; here the page shows what happens without one.
  const once = idempotency({ stampede, scope: readCustomer, required: false })
  return express
    .Router()
    .post('/', admitted, once, (req, res) => {
      const onSold = async (id: number) => {
        const shown = [`product:${id}`, 'products']
        await Promise.all(shown.map((what) => stampede.purge({ tag: pageTag(req, what) })))
      }
      return send(res, place(req, { request: req.idempotency?.childKey('order'), onSold }))
    })
    .get('/', (req, res) => send(res, list(req)))
    .get('/:id', (req: Request<{ id: string }>, res) => send(res, show(req, req.params.id)))
}

/** With the host, since each shop has a database of its own, and two may share a Redis. */
function pageTag({ headers }: Request, shown: string): string {
  return `${headers.host} ${shown}`
}

/** One product, or, whatever the query, a list of them. */
function shownOn(url: string): string {
  const id = /^\/api\/products\/([^/?]+)/.exec(url)?.[1]
  return id === undefined ? 'products' : `product:${id}`
}

function labRoutes({ stats, resetStats, stampede, doubleClick, database }: Lab): Router {
  return express
    .Router()
    .get('/stats', (req, res) => send(res, stats(req)))
    .delete('/stats', (req, res) => send(res, resetStats(req)))
    .post('/stampede', (req, res) => send(res, stampede(req)))
    .post('/double-click', (req, res) => send(res, doubleClick(req)))
    .put('/database', (req, res) => send(res, database(req)))
}

async function send(res: Response, answer: Answer | Promise<Answer>): Promise<void> {
  const { status, headers, body } = await answer
  res.status(status).set(headers).send(body)
}

const failed: ErrorRequestHandler = (error, req, res, next) => {
  if (res.headersSent) next(error)
  else void send(res, answerError(error, req))
}
