// stampedeCache() for Hono 4.

import { type IncomingMessage, METHODS, type ServerResponse } from 'node:http'
import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { createNodeCache } from '@stampede/node-http/adapter'
import type { Context, MiddlewareHandler } from 'hono'
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
  const cache = createHttpCache<C, ServerResponse>(options, { methods: METHODS, routeOf, mountOf })
  const visit = createNodeCache(cache)
  let isMounted = false
  return async function stampedeCache(c, next) {
    await visitOf(c as C, next, (request) => {
      if (!isMounted) cache.mountedIn(serverOf(request.req))
      isMounted = true
      visit(request)
    })
  }
}

/** The server that got the request. Node sets this property on each socket that it accepts. */
function serverOf({ socket }: IncomingMessage): object {
  return (socket as unknown as { readonly server: object }).server
}

/** The path of the pattern that this middleware is mounted for, such as `/api` of `/api/*`. */
function mountOf({ req: { matchedRoutes, routeIndex } }: Context): string {
  const { path = '' } = matchedRoutes[routeIndex] ?? {}
  return path.endsWith('*') ? path.slice(0, -1) : ''
}

/** The pattern of the last route that matches. For a 404, that is a pattern for all paths. */
function routeOf(c: Context): string | undefined {
  // Not `matchedRoutes` of hono/route: `require` and `import` load two copies of Hono, and the
  // function of one copy does not know the requests of the other.
  const { path, method } = c.req.matchedRoutes.at(-1) ?? {}
  return method === 'ALL' && path?.endsWith('*') ? undefined : path
}
