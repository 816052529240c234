// @StampedeCache: the response cache for controllers and handlers of Nest.

import { METHODS, type ServerResponse } from 'node:http'
import { type NestInterceptor, type Type, UseInterceptors } from '@nestjs/common'
import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { createNodeCache } from '@stampede/node-http/adapter'
import { interceptorOf } from './interceptor.ts'
import { allowsEtag, type HttpRequest, routeOf } from './request.ts'

/**
 * Returns an interceptor class that caches responses to GET and HEAD. On a miss, one request runs
 * the handler. Other requests for the same key wait for that response. Guards run for each request.
 *
 * @example
 * { provide: APP_INTERCEPTOR, useClass: stampedeCache({ ttlMs: 10_000 }) }
 */
export function stampedeCache<Req extends HttpRequest = HttpRequest>(
  options?: CacheOptions<Req, ServerResponse>,
): Type<NestInterceptor> {
  return interceptorOf('stampedeCache({ ttlMs: 10_000 })', options, (stampede) => {
    const own = { stampede, ...options } as CacheOptions<HttpRequest, ServerResponse>
    return createNodeCache(createHttpCache(own, { methods: METHODS, allowsEtag, routeOf }))
  })
}

/**
 * Caches the responses of a handler, or of all handlers of a controller. The options of a handler
 * replace those of its controller.
 *
 * @example
 * @Get(':id')
 * @StampedeCache({ ttlMs: 10_000 })
 * show(@Param('id') id: string) {}
 */
export function StampedeCache<Req extends HttpRequest = HttpRequest>(
  options?: CacheOptions<Req, ServerResponse>,
): ClassDecorator & MethodDecorator {
  return UseInterceptors(stampedeCache(options))
}
