// idempotency() for Koa 2 and 3.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { MountOrder } from '@stampede/node-http/adapter'
import type Koa from 'koa'
import { layersOf, type Uncalled } from './address.ts'
import { answerOf } from './exchange.ts'
import { KoaIdempotentExchange } from './koa-idempotent-exchange.ts'

declare module 'koa' {
  interface ExtendableContext {
    /** The attempt of this request. `idempotency` sets it if the request has a key. */
    idempotency?: Attempt
  }
}

/**
 * Returns a middleware that runs the next middlewares once for each idempotency key. A repeated
 * request gets the stored response. Mount it after authentication. The body parser may come before
 * or after it.
 *
 * @example
 * router.post('/payments', auth, idempotency({ scope: (ctx) => ctx.state.user.id }), createPayment)
 */
export function idempotency(
  options: IdempotencyOptions<Koa.Context>,
  ..._uncalled: Uncalled
): Koa.Middleware {
  const core = createHttpIdempotency<Koa.Context>(options)
  const order = new MountOrder('idempotency')
  return function idempotency(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    if (!order.isDone) {
      order.see(ctx.req, ctx.res, (methods) => layersOf(ctx.app, idempotency, methods))
    }
    const exchange = new KoaIdempotentExchange(ctx, next)
    const handled = core.handle(exchange, (attempt) => {
      ctx.idempotency = attempt
    })
    return answerOf(exchange, handled)
  }
}
