// stampedeCache() for Fastify 5.

import { METHODS, type ServerResponse } from 'node:http'
import type { CacheOptions } from '@stampede/core'
import { createHttpCache } from '@stampede/core/adapter'
import { createNodeCache } from '@stampede/node-http/adapter'
import type { FastifyRequest } from 'fastify'
import { addressOf, parsedOf } from './address.ts'
import { knowsConstraints } from './constraints.ts'
import { checkCalled, type Hook, type Mountable, mountable, withFields } from './mount.ts'

/**
 * Returns a plugin that caches responses to GET and HEAD. On a miss, one request runs the handler.
 * Other requests for the same key wait for that response. Register it for an instance,
 * or pass it as a hook of a route.
 *
 * @example
 * app.register(stampedeCache({ ttlMs: 10_000 }))
 * @example
 * app.get('/products', { onRequest: stampedeCache({ ttlMs: 10_000 }) }, listProducts)
 */
export function stampedeCache<Req extends FastifyRequest = FastifyRequest>(
  options?: CacheOptions<Req, ServerResponse>,
): Mountable {
  checkCalled('stampedeCache', options, 'stampedeCache({ ttlMs: 10_000 })')
  let mount: string | undefined
  const mountOf = (): string => mount ?? ''
  const cache = createHttpCache<Req, ServerResponse>(options, { ...FACTS, mountOf })
  const visit = createNodeCache(cache)
  let isMounted = false
  const hook: Hook = (request, reply, done) => {
    const { server, raw: req } = request
    if (!knowsConstraints(request)) return done()
    // All instances of an app have the same server.
    if (!isMounted) cache.mountedIn(server.server)
    isMounted = true
    visit({
      req,
      res: reply.raw,
      next: withFields(reply, done),
      native: request as Req,
      address: addressOf(request),
      parsed: parsedOf,
      dispatch: (again, into) => server.routing(again, into),
    })
  }
  // One function may be registered for several instances, and a route may be a child of each.
  return mountable('stampedeCache', 'onRequest', hook, (prefix) => {
    mount = mount === undefined || mount === prefix ? prefix : ''
  })
}

const FACTS = { methods: METHODS, routeOf }

/** The pattern of the matched route, with its prefix. A 404 has none. */
function routeOf({ routeOptions }: FastifyRequest): string | undefined {
  return routeOptions.url
}
