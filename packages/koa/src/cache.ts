// stampedeCache() for Koa 2 and 3.

import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { MountOrder } from '@stampede/node-http/adapter'
import type Koa from 'koa'
import { addressOf, isSeen, layersOf, type Uncalled } from './address.ts'
import { answerOf, KoaExchange } from './exchange.ts'

/**
 * Returns a middleware that caches responses to GET and HEAD. On a miss, one request runs the next
 * middlewares. Other requests for the same key wait for that response. Mount it for an app, a
 * router or a route.
 *
 * @example
 * router.get('/products', stampedeCache({ ttlMs: 10_000 }), listProducts)
 */
export function stampedeCache(
  options?: CacheOptions<Koa.Context, Koa.Response>,
  ..._uncalled: Uncalled
): Koa.Middleware {
  const cache = createHttpCache<Koa.Context, Koa.Response>(options, { routeOf })
  const order = new MountOrder('stampedeCache')
  // Not async, so that a hit creates no promise. If this function throws, Koa turns the exception
  // into a rejection.
  return function stampedeCache(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    if (!order.isDone) {
      order.see(ctx.req, ctx.res, (methods) => {
        cache.mountedIn(ctx.app)
        return layersOf(ctx.app, stampedeCache, methods)
      })
    }
    const { req, res, app, response } = ctx
    const dispatch: Entry = (again, into) => entryOf(app)(again, into)
    const visit = { req, res, native: ctx, address: addressOf(ctx), dispatch }
    const exchange = new KoaExchange(visit, cache, next, isSeen(ctx, stampedeCache))
    return answerOf(exchange, exchange.enter(response))
  }
}

/** The path that @koa/router matched. */
function routeOf({ _matchedRoute: path }: Koa.Context): string | undefined {
  return typeof path === 'string' ? path : undefined
}

type Entry = ReturnType<Koa['callback']>

const entries = new WeakMap<Koa, Entry>()

/**
 * Returns `app.callback()`, created once for each app. It also runs middlewares that are added
 * later.
 */
function entryOf(app: Koa): Entry {
  const known = entries.get(app)
  if (known !== undefined) return known
  const entry = app.callback()
  entries.set(app, entry)
  return entry
}
