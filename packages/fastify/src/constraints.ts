// Constraints of routes. By them, Fastify chooses between routes of one URL, for example by the
// Accept-Version field. The plugin runs after that choice, and needs the result for its key.

import { subscribe } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import { warnOnce } from '@stampede/core/adapter'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'

const ROUTE: unique symbol = Symbol('stampede.route')

/** A property of the `config` of each route. */
interface Noted {
  [ROUTE]?: RouteOptions
}

/** The routes of one app, in the order of their declaration. */
interface App {
  readonly routes: RouteOptions[]
  /**
   * The texts of routes with constraints. Set at the first request, because `onRoute` hooks of the
   * app may change the constraints until then. `unknown`: this module did not see the routes.
   */
  texts?: ReadonlyMap<RouteOptions, string> | 'unknown'
}

/** By the server, which all instances of an app share. */
const apps = new WeakMap<object, App>()

/** Notes the routes of a new app, because a request does not have their constraints. */
export function watchRoutes(message: unknown): void {
  const { fastify } = message as { readonly fastify: FastifyInstance }
  const routes: RouteOptions[] = []
  apps.set(fastify.server, { routes })
  fastify.addHook('onRoute', (route) => {
    routes.push(route)
    route.config = Object.assign({}, route.config, { [ROUTE]: route })
  })
}

// Fastify publishes each new app on this channel, before its first route.
subscribe('fastify.initialization', watchRoutes)

/**
 * Different constraints have different texts. Values such as two symbols may look the same, so a
 * number follows. It is the same in each process that declares the routes in the same order.
 */
function textsOf(routes: readonly RouteOptions[]): Map<RouteOptions, string> {
  const texts = new Map<RouteOptions, string>()
  const alike = new Map<string, unknown[][]>()
  const whole = { depth: null, maxArrayLength: null, maxStringLength: null, compact: true }
  for (const route of routes) {
    const { constraints = {} } = route
    const entries = Object.entries(constraints).sort(([one], [other]) => (one < other ? -1 : 1))
    if (entries.length === 0) continue
    const text = inspect(entries, { ...whole, breakLength: Infinity, sorted: true })
    const values = entries.map(([, value]: [string, unknown]) => value)
    const known = alike.get(text) ?? []
    alike.set(text, known)
    const isSame = (others: unknown[]) => values.every((value, i) => areEqual(value, others[i]))
    const at = known.findIndex(isSame)
    texts.set(route, `${text} ${at === -1 ? known.push(values) - 1 : at}`)
  }
  return texts
}

function areEqual(one: unknown, other: unknown): boolean {
  return Object.is(one, other) || (one instanceof RegExp && String(one) === String(other))
}

function textsFor(server: FastifyInstance): NonNullable<App['texts']> {
  const app = apps.get(server.server) ?? { routes: [], texts: lateTexts(server) }
  apps.set(server.server, app)
  app.texts ??= textsOf(app.routes)
  return app.texts
}

/**
 * Whether it is known which constraints have chosen the route of a request. They are unknown if an
 * `onRoute` hook of an app with constraints has replaced the `config` of the route.
 */
export function knowsConstraints({ server, routeOptions, is404 }: FastifyRequest): boolean {
  const texts = textsFor(server)
  if (texts === 'unknown') return false
  return texts.size === 0 || is404 || (routeOptions.config as Noted)[ROUTE] !== undefined
}

/** The constraints of the matched route. Undefined: the URL alone has chosen it. */
export function constraintsOf({ server, routeOptions, is404 }: FastifyRequest): string | undefined {
  const texts = textsFor(server)
  if (texts === 'unknown') return routeOptions.version
  if (texts.size === 0) return undefined
  if (is404) return '404'
  const route = (routeOptions.config as Noted)[ROUTE]
  return route === undefined ? routeOptions.version : texts.get(route)
}

/**
 * An app that was created before the import of this package. The text that Fastify prints for
 * developers has the constraints of each route, as JSON. The host is in the key anyway.
 */
function lateTexts(server: FastifyInstance): NonNullable<App['texts']> {
  const isConstrained = server
    .printRoutes()
    .split('\n')
    .some((line) => {
      const text = line.slice(line.indexOf(' {"') + 1)
      const isHostAlone = text.startsWith('{"host"') && !text.includes(',')
      return text.startsWith('{"') && text.endsWith('}') && !isHostAlone
    })
  if (isConstrained)
    warnOnce(
      'STAMPEDE_LATE_IMPORT',
      '@stampede/fastify was imported after fastify() was called, so the constraints of the routes ' +
        'are unknown and nothing is cached; import it in the module that calls fastify()',
    )
  return isConstrained ? 'unknown' : new Map()
}
