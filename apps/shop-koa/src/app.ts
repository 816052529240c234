// The shop as a Koa app. Everything it says about caching is the one line with `stampedeCache`.

import { Router, type RouterContext } from '@koa/router'
import type { Stampede } from '@stampede/core'
import { stampedeCache } from '@stampede/koa'
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
import Koa, { type Context, type Middleware } from 'koa'

export interface AppOptions {
  readonly shop: Shop
  readonly stampede: Stampede
  readonly pages: Pages
  /** Where the cache lives, for the page to show. */
  readonly store: 'memory' | 'Redis'
}

/** Fresh for ten seconds; then stale for thirty while it is refreshed, or for sixty if it cannot be. */
const LIFETIMES = { ttlMs: 10_000, staleWhileRevalidateMs: 30_000, staleIfErrorMs: 60_000 }

export function createApp({ shop, stampede, pages, store }: AppOptions): Koa {
  const about = { framework: 'Koa', store, ...LIFETIMES, cacheStats: () => stampede.stats() }
  const app = new Koa()
  app.use(catchErrors)

  // The lab comes first: it looks at the cache from outside.
  app.use(labRoutes(createLab(shop, about)).routes())

  const cached = new Router({ prefix: '/api' })
  cached.use(stampedeCache({ stampede, ...LIFETIMES }))
  app.use(productRoutes(cached, shop.productsAt('/api')).routes())

  // The same handlers without the cache, for comparison.
  const uncached = new Router({ prefix: '/uncached/api' })
  app.use(productRoutes(uncached, shop.productsAt('/uncached/api')).routes())

  app.use((ctx) => send(ctx, pageFor(ctx, pages)))
  return app
}

function productRoutes(router: Router, { list, show, change }: ProductHandlers): Router {
  return router
    .get('/products', (ctx) => send(ctx, list(ctx.req)))
    .get('/products/:id', (ctx) => send(ctx, show(ctx.req, idOf(ctx))))
    .put('/products/:id', (ctx) => send(ctx, change(ctx.req, idOf(ctx))))
}

function labRoutes({ stats, resetStats, stampede, database }: Lab): Router {
  return new Router({ prefix: '/api/lab' })
    .get('/stats', (ctx) => send(ctx, stats(ctx.req)))
    .delete('/stats', (ctx) => send(ctx, resetStats(ctx.req)))
    .post('/stampede', (ctx) => send(ctx, stampede(ctx.req)))
    .put('/database', (ctx) => send(ctx, database(ctx.req)))
}

function idOf({ params }: RouterContext): string {
  return params.id ?? ''
}

function pageFor({ method, path }: Context, pages: Pages): Answer {
  const page = method === 'GET' || method === 'HEAD' ? pages.get(path) : undefined
  return page ?? noSuchPage()
}

async function send(ctx: Context, answer: Answer | Promise<Answer>): Promise<void> {
  const { status, headers, body } = await answer
  ctx.status = status
  ctx.set({ ...headers })
  ctx.body = body.length === 0 ? null : body
  if (ctx.fresh) ctx.status = 304
}

const catchErrors: Middleware = async (ctx, next) => {
  try {
    await next()
  } catch (error) {
    if (ctx.headerSent) throw error
    await send(ctx, answerError(error, ctx.req))
  }
}
