// idempotency for Express 4 and 5: where Express keeps what it must know of a request.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { createNodeIdempotency } from '@stampede/node-http/adapter'
import type { Request } from 'express'
import { addressOf } from './address.ts'
import type { Middleware } from './middleware.ts'
import { shareShape } from './share-shape.ts'

declare global {
  namespace Express {
    interface Request {
      /** Set by `idempotency` for the handlers behind it, where the request has a key. */
      idempotency?: Attempt
    }
  }
}

/**
 * A middleware that runs what comes after it once for each idempotency key, and answers a repeated request with what was
 * answered first. Mount it behind authentication, before or behind the body parser.
 *
 * @example
 * app.post('/payments', auth, idempotency({ scope: (req) => req.user.id }), createPayment)
 */
export function idempotency<Req extends Request = Request>(
  options: IdempotencyOptions<Req>,
): Middleware {
  const visit = createNodeIdempotency(createHttpIdempotency<Req>(options))
  return function idempotency(incoming, res, next): void {
    const req = incoming as Req
    shareShape(req)
    shareShape(res)
    visit({
      req,
      res,
      next,
      native: req,
      address: addressOf(req),
      parsed: () => ({ body: req.body, leavesNothing: !isExpress4(req) }),
      attach: (attempt) => {
        req.idempotency = attempt
      },
    })
  }
}

/** Its body parsers leave `{}` where they parsed nothing. */
function isExpress4(req: Request): boolean {
  return 'lazyrouter' in req.app
}
