// stampedeCache for Koa 2 and 3.

import type { CacheOptions } from '@stampede/core'
import { createHttpCache, type HttpCache } from '@stampede/core/adapter'
import {
  type Dispatch,
  isInsideOrigin,
  isTakenOn,
  readRequest,
  takeRevalidation,
} from '@stampede/node-http/adapter'
import type Koa from 'koa'
import { addressOf } from './address.ts'
import { KoaExchange } from './koa-exchange.ts'
import { isSeen } from './koa-reply.ts'

/**
 * A middleware that answers GET and HEAD from a cache, and lets one request at a time through to what
 * comes after it for the rest. For a whole app or a router.
 *
 * @example
 * router.get('/products', stampedeCache({ ttlMs: 10_000 }), listProducts)
 */
export function stampedeCache(options?: CacheOptions<Koa.Context, Koa.Response>): Koa.Middleware {
  const cache = createHttpCache<Koa.Context, Koa.Response>(options)
  // Not async: a hit takes no promise. Koa makes a rejection of what is thrown.
  return function stampedeCache(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    const revalidation = takeRevalidation(ctx.req, cache)
    if (revalidation === 'foreign' && !isInsideOrigin(ctx.req)) return next()
    const { req, res, app } = ctx
    const address = addressOf(ctx)
    const request = readRequest(req, address)
    const inner = () => cache.inner({ request, native: ctx }, [ctx, ctx.response])
    if (isTakenOn(ctx.req, inner)) return next()
    const seen = isSeen(ctx, stampedeCache)
    const dispatch: Dispatch = (again, into) => entryOf(app)(again, into)
    const visit = { req, res, native: ctx, address, dispatch }
    const exchange = new KoaExchange({ ctx, next, seen }, visit, request, cache)
    if (typeof revalidation === 'object') {
      exchange.prepare()
      exchange.runOrigin(revalidation.observer).then(revalidation.settle)
      return exchange.answered ?? ANSWERED
    }
    return handle(cache, exchange)
  }
}

/** What Koa waits for: until ctx holds the answer, while core may still be at work. */
function handle(cache: HttpCache<Koa.Context>, exchange: KoaExchange): Promise<void> {
  try {
    const handled = cache.handle(exchange)
    if (handled === undefined) exchange.close()
    else
      handled.then(
        () => exchange.close(),
        (error: unknown) => exchange.close(error),
      )
    return exchange.answered ?? handled ?? ANSWERED
  } catch (error) {
    if (exchange.answered === undefined) throw error
    exchange.close(error)
    return exchange.answered
  }
}

const ANSWERED = Promise.resolve()

const entries = new WeakMap<Koa, Dispatch>()

/** One composed callback an app; it sees middlewares that are added later too. */
function entryOf(app: Koa): Dispatch {
  const known = entries.get(app)
  if (known !== undefined) return known
  const entry = app.callback()
  entries.set(app, entry)
  return entry
}
