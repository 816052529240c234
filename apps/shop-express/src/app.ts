// The shop as an Express app. Caching is the line with `stampedeCache` and the purge after an
// order. Idempotency keys are the line with `idempotency`.

import type { Stampede } from '@stampede/core'
import { stampedeDashboard } from '@stampede/dashboard'
import { idempotency, stampedeCache } from '@stampede/express'
import {
  createLab,
  isLocal,
  type Lab,
  noSuchPage,
  type OrderHandlers,
  type Pages,
  type ProductHandlers,
  readCustomer,
  respondToError,
  type Shop,
  type ShopResponse,
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
  /** The page shows where the cache lives. */
  readonly store: 'memory' | 'Redis'
}

/** Fresh for 10 s. Then stale for 30 s during a refresh, or for 60 s if the refresh fails. */
const LIFETIMES = { ttlMs: 10_000, staleWhileRevalidateMs: 30_000, staleIfErrorMs: 60_000 }
/** Shorter than the default of 5 s, so that the lab shows soon how another process takes over. */
const LEASE_MS = 2_000

export function createApp({ shop, stampede, pages, store }: AppOptions): Express {
  const about = { framework: 'Express', store, ...LIFETIMES, cacheStats: () => stampede.stats() }
  const app = express()
  app.disable('x-powered-by')

  // Like the lab, only for clients on this machine.
  app.use('/dashboard', stampedeDashboard({ stampede, authorize: isLocal }))

  // The lab is mounted before the cache, because it measures the cache from outside.
  app.use('/api/lab', labRoutes(createLab(shop, about)))

  // Orders are mounted before the cache, because an order belongs to one customer.
  app.use('/api/orders', orderRoutes(shop.orders, stampede))

  // Tags name the products on a page, so that an order can purge them. By default a price change
  // would purge the page, too. Here it does not, so that the page can show how a change appears
  // when the TTL ends.
  app.use(
    '/api',
    stampedeCache({
      stampede,
      ...LIFETIMES,
      leaseMs: LEASE_MS,
      invalidateOn: 'never',
      tags: (req) => [pageTag(req, shownOn(req.originalUrl))],
    }),
  )
  app.use('/api/products', productRoutes(shop.productsAt('/api')))

  // The same handlers without the cache, and with a cache per process, for comparison.
  app.use('/uncached/api/products', productRoutes(shop.productsAt('/uncached/api')))
  const perProcess = shop.perProcess.handlers(shop.productsAt('/per-process/api'))
  app.use('/per-process/api/products', productRoutes(perProcess))

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
  // The key is optional here, so that the page can show what happens without one. Other apps
  // require it.
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

/** The tag includes the host: each shop has its own database, and two shops may share a Redis. */
function pageTag({ headers }: Request, shown: string): string {
  return `${headers.host} ${shown}`
}

/** One product, or the list of products with any query. */
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

async function send(res: Response, response: ShopResponse | Promise<ShopResponse>): Promise<void> {
  const { status, headers, body } = await response
  res.status(status).set(headers).send(body)
}

const failed: ErrorRequestHandler = (error, req, res, next) => {
  if (res.headersSent) next(error)
  else void send(res, respondToError(error, req))
}
