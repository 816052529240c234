// idempotency() for Express 4 and 5.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { createNodeIdempotency, MountOrder } from '@stampede/node-http/adapter'
import type { Request } from 'express'
import { layersOf } from './layers.ts'
import type { Middleware, Uncalled } from './middleware.ts'
import { addressOf, parsedOf, shareShape } from './request.ts'

declare global {
  namespace Express {
    interface Request {
      /** The attempt of this request. `idempotency` sets it if the request has a key. */
      idempotency?: Attempt
    }
  }
}

/**
 * Returns a middleware that runs the next handlers once for each idempotency key. A repeated
 * request gets the stored response. Mount it after authentication. The body parser may come before
 * or after it.
 *
 * @example
 * app.post('/payments', auth, idempotency({ scope: (req) => req.user.id }), createPayment)
 */
export function idempotency<Req extends Request = Request>(
  options: IdempotencyOptions<Req>,
  ..._uncalled: Uncalled
): Middleware {
  const visit = createNodeIdempotency(createHttpIdempotency<Req>(options))
  const order = new MountOrder('idempotency')
  return function idempotency(incoming, res, next): void {
    const req = incoming as Req
    if (!order.isDone) {
      order.see(req, res, (methods) => layersOf(req.app, idempotency, methods))
    }
    shareShape(req)
    shareShape(res)
    visit({
      req,
      res,
      next,
      native: req,
      address: addressOf(req),
      parsed: parsedOf,
      attach: (attempt) => {
        req.idempotency = attempt
      },
    })
  }
}
