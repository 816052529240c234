// stampedeCache() for Express 4 and 5.

import { METHODS } from 'node:http'
import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { createNodeCache, MountOrder } from '@stampede/node-http/adapter'
import type { Application, Request, Response } from 'express'
import { layersOf } from './layers.ts'
import type { Middleware, Uncalled } from './middleware.ts'
import { addressOf, parsedOf, shareShape } from './request.ts'
import { routeOf } from './route-pattern.ts'

/**
 * Returns a middleware that caches responses to GET and HEAD. On a miss, one request runs the
 * handlers after the middleware. Other requests for the same key wait for that response. Mount it
 * for an app, a router or a route.
 *
 * @example
 * app.get('/products', stampedeCache({ ttlMs: 10_000 }), listProducts)
 */
export function stampedeCache<Req extends Request = Request>(
  options?: CacheOptions<Req, Response>,
  ..._uncalled: Uncalled
): Middleware {
  const cache = createHttpCache<Req, Response>(options, FRAMEWORK)
  const visit = createNodeCache(cache, { beforeRun })
  const order = new MountOrder('stampedeCache')
  return function stampedeCache(incoming, res, next): void {
    const req = incoming as Req
    if (!order.isDone) {
      order.see(req, res, (methods) => {
        if (req.app) cache.mountedIn(rootOf(req.app))
        return layersOf(req.app, stampedeCache, methods)
      })
    }
    visit({
      req,
      res,
      next,
      native: req,
      address: addressOf(req),
      parsed: parsedOf,
      dispatch: (again, into) => rootOf(req.app)(again, into),
    })
  }
}

const FRAMEWORK = {
  methods: METHODS,
  allowsEtag,
  routeOf: (req: Request) => routeOf(req, rootOf),
  mountOf: (req: Request) => req.baseUrl,
}

function beforeRun(req: object, res: object): void {
  shareShape(req)
  shareShape(res)
}

/**
 * Whether the cache may add an ETag. It may not after `app.disable('etag')`. A router without an
 * app has no such setting.
 */
function allowsEtag(req: Request): boolean {
  return (req.app as Application | undefined)?.get('etag') !== false
}

/**
 * The outermost app. A background refresh of a mounted app starts there, to run all middlewares
 * that the request has passed.
 */
function rootOf(app: Application): Application {
  let root = app
  while ('parent' in root && typeof root.parent === 'function') root = root.parent as Application
  return root
}
