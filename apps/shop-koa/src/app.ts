// The shop as a Koa app. Caching is the line with `stampedeCache` and the purge after an order.
// Idempotency keys are the line with `idempotency`.

import { Router, type RouterContext } from '@koa/router'
import type { Stampede } from '@stampede/core'
import { stampedeDashboardKoa } from '@stampede/dashboard'
import { idempotency, stampedeCache } from '@stampede/koa'
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
import Koa, { type Context, type Middleware } from 'koa'

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

export function createApp({ shop, stampede, pages, store }: AppOptions): Koa {
  const about = { framework: 'Koa', store, ...LIFETIMES, cacheStats: () => stampede.stats() }
  const app = new Koa()
  app.use(catchErrors)

  // Like the lab, only for clients on this machine.
  const authorize = ({ req }: Context) => isLocal(req)
  app.use(stampedeDashboardKoa({ stampede, authorize, path: '/dashboard' }))

  // The lab is mounted before the cache, because it measures the cache from outside.
  app.use(labRoutes(createLab(shop, about)).routes())

  // Orders are mounted before the cache, because an order belongs to one customer.
  app.use(orderRoutes(shop.orders, stampede).routes())

  // Tags name the products on a page, so that an order can purge them. By default a price change
  // would purge the page, too. Here it does not, so that the page can show how a change appears
  // when the TTL ends.
  const cached = new Router({ prefix: '/api' })
  cached.use(
    stampedeCache({
      stampede,
      ...LIFETIMES,
      leaseMs: LEASE_MS,
      invalidateOn: 'never',
      tags: (ctx) => [pageTag(ctx, shownOn(ctx.originalUrl))],
    }),
  )
  app.use(productRoutes(cached, shop.productsAt('/api')).routes())

  // The same handlers without the cache, and with a cache per process, for comparison.
  const uncached = new Router({ prefix: '/uncached/api' })
  app.use(productRoutes(uncached, shop.productsAt('/uncached/api')).routes())
  const compared = new Router({ prefix: '/per-process/api' })
  const perProcess = shop.perProcess.handlers(shop.productsAt('/per-process/api'))
  app.use(productRoutes(compared, perProcess).routes())

  app.use((ctx) => send(ctx, pageFor(ctx, pages)))
  return app
}

function productRoutes(router: Router, { list, show, change }: ProductHandlers): Router {
  return router
    .get('/products', (ctx) => send(ctx, list(ctx.req)))
    .get('/products/:id', (ctx) => send(ctx, show(ctx.req, idOf(ctx))))
    .put('/products/:id', (ctx) => send(ctx, change(ctx.req, idOf(ctx))))
}

function orderRoutes({ admit, place, list, show }: OrderHandlers, stampede: Stampede): Router {
  const admitted: Middleware = (ctx, next) => {
    admit(ctx.req)
    return next()
  }
  // The key is optional here, so that the page can show what happens without one. Other apps
  // require it.
  const once = idempotency({ stampede, scope: (ctx) => readCustomer(ctx.req), required: false })
  return new Router({ prefix: '/api/orders' })
    .post('/', admitted, once, (ctx) => {
      const onSold = async (id: number) => {
        const shown = [`product:${id}`, 'products']
        await Promise.all(shown.map((what) => stampede.purge({ tag: pageTag(ctx, what) })))
      }
      return send(ctx, place(ctx.req, { request: ctx.idempotency?.childKey('order'), onSold }))
    })
    .get('/', (ctx) => send(ctx, list(ctx.req)))
    .get('/:id', (ctx) => send(ctx, show(ctx.req, idOf(ctx))))
}

/** The tag includes the host: each shop has its own database, and two shops may share a Redis. */
function pageTag({ headers }: Context, shown: string): string {
  return `${headers.host} ${shown}`
}

/** One product, or the list of products with any query. */
function shownOn(url: string): string {
  const id = /^\/api\/products\/([^/?]+)/.exec(url)?.[1]
  return id === undefined ? 'products' : `product:${id}`
}

function labRoutes({ stats, resetStats, stampede, doubleClick, database }: Lab): Router {
  return new Router({ prefix: '/api/lab' })
    .get('/stats', (ctx) => send(ctx, stats(ctx.req)))
    .delete('/stats', (ctx) => send(ctx, resetStats(ctx.req)))
    .post('/stampede', (ctx) => send(ctx, stampede(ctx.req)))
    .post('/double-click', (ctx) => send(ctx, doubleClick(ctx.req)))
    .put('/database', (ctx) => send(ctx, database(ctx.req)))
}

function idOf({ params }: RouterContext): string {
  return params.id ?? ''
}

function pageFor({ method, path }: Context, pages: Pages): ShopResponse {
  const page = method === 'GET' || method === 'HEAD' ? pages.get(path) : undefined
  return page ?? noSuchPage()
}

async function send(ctx: Context, response: ShopResponse | Promise<ShopResponse>): Promise<void> {
  const { status, headers, body } = await response
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
    await send(ctx, respondToError(error, ctx.req))
  }
}
