// The layers of a Koa app, in the order in which requests pass them, for the check of the mount
// order.

import type { Layer } from '@stampede/node-http/adapter'
import type Koa from 'koa'

/** The middleware of koa-router and @koa/router has the router as a property. */
interface Routes {
  readonly router?: { readonly stack?: ReadonlyArray<{ readonly methods?: readonly string[] }> }
}

/** `self` is missing if a router or another function wraps the middleware. */
export function layersOf(app: Koa, self: Koa.Middleware, methods: readonly string[]): Layer[] {
  return app.middleware.map((middleware): Layer => {
    if (middleware === self) return 'self'
    const { router } = middleware as Routes
    if (router === undefined) return 'middleware'
    const handled = router.stack?.some(({ methods: own = [] }) =>
      own.some((method) => methods.includes(method)),
    )
    return handled ? 'route' : 'other-route'
  })
}
