// idempotency() for Hono 4.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { createNodeIdempotency } from '@stampede/node-http/adapter'
import type { Context, MiddlewareHandler } from 'hono'
import { readBody } from './body.ts'
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
    await visitOf(c as C, next, (request) => {
      visit({
        ...request,
        readBody: (maxBytes) => readBody(maxBytes, c, true),
        attach: (attempt) => c.set('idempotency', attempt),
      })
    })
  }
}
