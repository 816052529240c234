// The shop as an Express app. Everything it says about caching is the one line with `stampedeCache`.

import type { Stampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import {
  type Answer,
  answerError,
  createLab,
  type Lab,
  noSuchPage,
  type Pages,
  type ProductHandlers,
  type Shop,
} from '@stampede/shop'
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
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

  app.use('/api', stampedeCache({ stampede, ...LIFETIMES }))
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

function labRoutes({ stats, resetStats, stampede, database }: Lab): Router {
  return express
    .Router()
    .get('/stats', (req, res) => send(res, stats(req)))
    .delete('/stats', (req, res) => send(res, resetStats(req)))
    .post('/stampede', (req, res) => send(res, stampede(req)))
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
