// idempotency() for Fastify 5.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { createNodeIdempotency } from '@stampede/node-http/adapter'
import type { FastifyRequest } from 'fastify'
import { addressOf, parsedOf } from './address.ts'
import { checkCalled, type Mountable, mountable, withFields } from './mount.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The attempt of this request. `idempotency` sets it if the request has a key. */
    idempotency?: Attempt
  }
}

/**
 * Returns a plugin that runs a handler once for each idempotency key. A repeated request gets the
 * stored response. It is a `preHandler` hook, so it runs after authentication and after the body
 * was parsed. Register it for an instance, or pass it as a hook of a route.
 *
 * @example
 * app.register(idempotency({ scope: (request) => request.user.id }))
 * @example
 * app.post('/payments', { preHandler: [auth, idempotency({ scope })] }, createPayment)
 */
export function idempotency<Req extends FastifyRequest = FastifyRequest>(
  options: IdempotencyOptions<Req>,
): Mountable {
  checkCalled('idempotency', options, 'idempotency({ scope: (request) => request.user.id })')
  const visit = createNodeIdempotency(createHttpIdempotency<Req>(options))
  return mountable('idempotency', 'preHandler', (request, reply, done) => {
    visit({
      req: request.raw,
      res: reply.raw,
      next: withFields(reply, done),
      native: request as Req,
      address: addressOf(request),
      parsed: parsedOf,
      attach: (attempt) => {
        request.idempotency = attempt
      },
    })
  })
}
