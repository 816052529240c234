// idempotency() for Hono 4.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { createNodeIdempotency } from '@stampede/node-http/adapter'
import type { Context, MiddlewareHandler } from 'hono'
import { visitOf } from './visit.ts'

declare module 'hono' {
  interface ContextVariableMap {
    /** The attempt of this request. `idempotency` sets it if the request has a key. */
    idempotency?: Attempt
  }
}

/**
 * Returns a middleware that runs the next handlers once for each idempotency key. A repeated
 * request gets the stored response. Mount it after authentication.
 *
 * @example
 * app.post('/payments', auth, idempotency({ scope: (c) => c.get('user').id }), createPayment)
 */
export function idempotency<C extends Context = Context>(
  options: IdempotencyOptions<C>,
): MiddlewareHandler {
  const visit = createNodeIdempotency(createHttpIdempotency<C>(options))
  return async function idempotency(c, next) {
    // Hono keeps a body that an earlier middleware has read.
    const isRead = Object.keys(c.req.bodyCache).length > 0
    const body = isRead ? Buffer.from(await c.req.arrayBuffer()) : undefined
    await visitOf(c as C, next, (request) => {
      visit({
        ...request,
        parsed: () => ({ body, rawBody: body }),
        attach: (attempt) => c.set('idempotency', attempt),
      })
    })
  }
}
