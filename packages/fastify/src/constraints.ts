// Constraints of routes. By them, Fastify chooses between routes of one URL, for example by the
// Accept-Version field. The plugin runs after that choice, and needs the result for its key.

import { subscribe } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import { warnOnce } from '@stampede/core/adapter'
import type { FastifyInstance, FastifyRequest } from 'fastify'

const CONSTRAINTS: unique symbol = Symbol('stampede.constraints')

/** A property of the `config` of each route with constraints. */
interface Noted {
  [CONSTRAINTS]?: string
}

/** `unknown`: some route has constraints, but this module did not see which. */
type Constraints = 'none' | 'noted' | 'unknown'

/** By the server, which all instances of an app share. */
const apps = new WeakMap<object, Constraints>()

/** Notes the constraints of all routes of a new app, because a request does not have them. */
export function watchRoutes(message: unknown): void {
  const { fastify } = message as { readonly fastify: FastifyInstance }
  apps.set(fastify.server, 'none')
  fastify.addHook('onRoute', (route) => {
    const { constraints = {} } = route
    if (Object.keys(constraints).length === 0) return
    apps.set(fastify.server, 'noted')
    route.config = Object.assign({}, route.config, { [CONSTRAINTS]: textOf(constraints) })
  })
}

// Fastify publishes each new app on this channel, before its first route.
subscribe('fastify.initialization', watchRoutes)

/** Different constraints must have different texts, also regular expressions and symbols. */
function textOf(constraints: object): string {
  const whole = { depth: null, maxArrayLength: null, maxStringLength: null }
  return inspect(constraints, { ...whole, breakLength: Infinity, compact: true, sorted: true })
}

/** Whether it is known which constraints have chosen the route of a request. */
export function knowsConstraints({ server }: FastifyRequest): boolean {
  return (apps.get(server.server) ?? lateApp(server)) !== 'unknown'
}

/** The constraints of the matched route. Undefined: the URL alone has chosen it. */
export function constraintsOf({ server, routeOptions, is404 }: FastifyRequest): string | undefined {
  const known = apps.get(server.server) ?? lateApp(server)
  if (known === 'none') return undefined
  if (is404) return '404'
  return known === 'noted' ? (routeOptions.config as Noted)[CONSTRAINTS] : routeOptions.version
}

/**
 * An app that was created before the import of this package. The text that Fastify prints for
 * developers has the constraints of each route, as JSON. The host is in the key anyway.
 */
function lateApp(server: FastifyInstance): Constraints {
  const isConstrained = / \{"(?!host"[^,]*\}$).*\}$/m.test(server.printRoutes())
  if (isConstrained)
    warnOnce(
      'STAMPEDE_LATE_IMPORT',
      '@stampede/fastify was imported after fastify() was called, so the constraints of the routes ' +
        'are unknown and nothing is cached; import it in the module that calls fastify()',
    )
  const known = isConstrained ? 'unknown' : 'none'
  apps.set(server.server, known)
  return known
}
