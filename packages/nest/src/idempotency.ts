// @Idempotent: idempotency keys for controllers and handlers of Nest.

import {
  createParamDecorator,
  type ExecutionContext,
  type NestInterceptor,
  type Type,
  UseInterceptors,
} from '@nestjs/common'
import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { createNodeIdempotency } from '@stampede/node-http/adapter'
import { interceptorOf } from './interceptor.ts'
import type { HttpRequest } from './request.ts'

/** The attempts of the requests that run now, by the request of Express or Fastify. */
const attempts = new WeakMap<object, Attempt>()

/**
 * Returns an interceptor class that runs a handler once for each idempotency key. A repeated
 * request gets the stored response. It runs after guards and after the body was parsed.
 *
 * @example
 * @UseInterceptors(idempotency({ scope: (request: Request) => request.user.id }))
 */
export function idempotency<Req extends HttpRequest = HttpRequest>(
  options: IdempotencyOptions<Req>,
): Type<NestInterceptor> {
  return interceptorOf('idempotency({ scope })', options, (stampede) => {
    const http = createHttpIdempotency<HttpRequest>({ stampede, ...options } as IdempotencyOptions)
    const visit = createNodeIdempotency(http)
    return (each) => visit({ ...each, attach: (attempt) => attempts.set(each.native, attempt) })
  })
}

/**
 * Runs a handler, or each handler of a controller, once for each idempotency key.
 *
 * @example
 * @Post()
 * @Idempotent({ scope: (request: Request) => request.user.id })
 * pay(@Body() payment: Payment) {}
 */
export function Idempotent<Req extends HttpRequest = HttpRequest>(
  options: IdempotencyOptions<Req>,
): ClassDecorator & MethodDecorator {
  return UseInterceptors(idempotency(options))
}

/** The attempt of this request, as a parameter of a handler. Undefined if it has no key. */
export const IdempotencyAttempt: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => attempts.get(context.switchToHttp().getRequest()),
)
