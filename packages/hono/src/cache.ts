// stampedeCache() for Hono 4.

import type { ServerResponse } from 'node:http'
import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { createNodeCache, serverOf } from '@stampede/node-http/adapter'
import type { Context, MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import { visitOf } from './visit.ts'

/**
 * Returns a middleware that caches responses to GET and HEAD. On a miss, one request runs the next
 * handlers. Other requests for the same key wait for that response. Mount it before the routes, or
 * pass it to one route.
 *
 * @example
 * app.get('/products', stampedeCache({ ttlMs: 10_000 }), listProducts)
 */
export function stampedeCache<C extends Context = Context>(
  options?: CacheOptions<C, ServerResponse>,
): MiddlewareHandler {
  const cache = createHttpCache<C, ServerResponse>(options)
  const visit = createNodeCache(cache, { routeOf })
  let isMounted = false
  return async function stampedeCache(c, next) {
    await visitOf(c as C, next, (request) => {
      if (!isMounted) cache.mountedIn(serverOf(request.req))
      isMounted = true
      visit(request)
    })
  }
}

/** The pattern of the last route that matches. For a 404, that is a pattern for all paths. */
function routeOf(c: Context): string | undefined {
  const { path, method } = matchedRoutes(c).at(-1) ?? {}
  return method === 'ALL' && path?.endsWith('*') ? undefined : path
}
