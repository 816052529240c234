// stampedeCache for Express 4 and 5: where Express keeps what the cache must know of a request.

import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { createNodeCache, type Dispatch, type NodeFramework } from '@stampede/node-http/adapter'
import type { Application, Request, Response } from 'express'
import { addressOf } from './address.ts'
import type { Middleware } from './middleware.ts'
import { shareShape } from './share-shape.ts'

/**
 * A middleware that answers GET and HEAD from a cache, and lets one request at a time through to what
 * comes after it for the rest. For a whole app, a router or a single route.
 *
 * @example
 * app.get('/products', stampedeCache({ ttlMs: 10_000 }), listProducts)
 */
export function stampedeCache<Req extends Request = Request>(
  options?: CacheOptions<Req, Response>,
): Middleware {
  const visit = createNodeCache(createHttpCache<Req, Response>(options), FRAMEWORK)
  return function stampedeCache(incoming, res, next): void {
    const req = incoming as Req
    visit({
      req,
      res,
      next,
      native: req,
      address: addressOf(req),
      dispatch: (again, into) => rootOf(req.app)(again, into),
    })
  }
}

const FRAMEWORK: NodeFramework<Request> = {
  allowsEtag,
  beforeRun(req, res) {
    shareShape(req)
    shareShape(res)
  },
}

/**
 * False after `app.disable('etag')`: then only a handler sets an ETag. A router without an app has
 * no such setting.
 */
function allowsEtag(req: Request): boolean {
  return (req.app as Application | undefined)?.get('etag') !== false
}

/** A mounted app is entered from above, through everything that was passed on the way to it. */
function rootOf(app: Application): Dispatch {
  let root = app
  while ('parent' in root && typeof root.parent === 'function') root = root.parent as Application
  return root
}
