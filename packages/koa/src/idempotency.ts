// idempotency for Koa 2 and 3.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import type Koa from 'koa'
import { createKoaIdempotentExchange } from './koa-idempotent-exchange.ts'

declare module 'koa' {
  interface ExtendableContext {
    /** Set by `idempotency` for the handlers behind it, where the request has a key. */
    idempotency?: Attempt
  }
}

/**
 * A middleware that runs what comes after it once for each idempotency key, and answers a repeated request with what was
 * answered first. Mount it behind authentication, before or behind the body parser.
 *
 * @example
 * router.post('/payments', auth, idempotency({ scope: (ctx) => ctx.state.user.id }), createPayment)
 */
export function idempotency(options: IdempotencyOptions<Koa.Context>): Koa.Middleware {
  const core = createHttpIdempotency<Koa.Context>(options)
  return async function idempotency(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    const visit = createKoaIdempotentExchange(ctx, next)
    const attach = (attempt: Attempt): void => {
      ctx.idempotency = attempt
    }
    const handled = (async () => core.handle(visit.exchange, attach))()
    handled.then(() => visit.close(), visit.close)
    return visit.answered
  }
}
