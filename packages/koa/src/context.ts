// A Koa context: its address, its layers, the status of an error, and the promise of a middleware.

import { METHODS, STATUS_CODES } from 'node:http'
import { isWrapped, type MountOrder, type RequestExchange } from '@stampede/node-http/adapter'
import type { Context, default as Koa, Next } from 'koa'

/**
 * The address as the handler reads it from `ctx`. An app may define its own properties on
 * `app.context`, which `ctx.request` does not have.
 */
function addressOf(ctx: Context) {
  const { protocol: scheme, host, originalUrl: target, mountPath } = ctx
  const rewritten = ctx.url === target && mountPath === undefined ? undefined : rewrittenOf(ctx)
  return { scheme, host, target, rewritten, trustsProxy: () => ctx.app.proxy }
}

/**
 * The URL, if a middleware rewrote it. A mount by koa-mount does not count as rewriting: it removes
 * `mountPath` from the beginning of `url`, and leaves at least a slash.
 */
function rewrittenOf(ctx: Context): string | undefined {
  const { originalUrl, url, mountPath: mount } = ctx
  if (typeof mount !== 'string') return url === originalUrl ? undefined : url
  const isMounted = [url, url.slice(1)].some((left) => originalUrl.endsWith(mount + left))
  return isMounted ? undefined : mount + url
}

/** The body, as far as parsers have parsed it. Their properties may have no types here. */
const parsedOf: NonNullable<Visit['parsed']> = ({ request }) => Object(request)

/** Facts about a request, for the cache. */
export const FACTS = {
  methods: METHODS as readonly string[],
  /** The path that @koa/router matched. */
  routeOf({ _matchedRoute: path }: Context): string | undefined {
    return typeof path === 'string' ? path : undefined
  },
  /** The part of the path in front of `ctx.path`, which koa-mount has removed. */
  mountOf({ originalUrl, path }: Context): string {
    // A target may be a whole URL.
    const [whole = ''] = originalUrl.replace(/^[a-z]+:\/\/[^/]+/i, '').split('?', 1)
    return whole.endsWith(path) ? whole.slice(0, -path.length) : whole
  },
}

type Layer = ReturnType<Parameters<MountOrder['see']>[2]>[number]

/** The middleware of koa-router and @koa/router has the router as a property. */
interface Routes {
  readonly router?: { readonly stack?: ReadonlyArray<{ readonly methods?: readonly string[] }> }
}

/**
 * The layers of an app in the order in which requests pass them. `self` is missing if a router or
 * another function wraps the middleware.
 */
export function layersOf(app: Koa, self: Koa.Middleware, methods: readonly string[]): Layer[] {
  return app.middleware.map((middleware): Layer => {
    if (middleware === self) return 'self'
    const { router } = middleware as Routes
    if (router === undefined) return 'middleware'
    const handled = router.stack?.some((route) => route.methods?.some((it) => methods.includes(it)))
    return handled ? 'route' : 'other-route'
  })
}

/**
 * Whether this is Koa 3, which sends web streams, Blobs and Responses, and pipes with pipeline().
 * Koa 2 sends them as JSON, and pipes with pipe().
 */
export function isKoa3(ctx: Context): boolean {
  return 'back' in ctx.response
}

/** The status that ctx.onerror will give to this error. */
export function statusOf(ctx: Context, error: unknown): number {
  const fields: { status?: unknown; statusCode?: unknown; code?: unknown } = Object(error)
  if (fields.code === 'ENOENT' && !isKoa3(ctx)) return 404
  const status = Number(fields.status || fields.statusCode)
  return STATUS_CODES[status] === undefined ? 500 : status
}

/** A request in a middleware of Koa. */
export type Visit = ConstructorParameters<typeof RequestExchange<Context>>[0] & {
  readonly next: Next
  /**
   * Whether a layer in front can read or change the ctx.body that the middleware sets: an earlier
   * middleware, a mount of this middleware before, or a wrapper of the response.
   */
  readonly bodyIsSeen: boolean
}

/** Marks a ctx that a middleware of Stampede has got. */
const VISITED: unique symbol = Symbol('visited')
type Visited = Context & { [VISITED]?: true }

/** The visit of a request to `middleware`. */
export function visitOf(ctx: Visited, next: Next, middleware: Koa.Middleware): Visit {
  const { req, res, app } = ctx
  const dispatch: Visit['dispatch'] = (again, into) => app.callback()(again, into)
  const bodyIsSeen = app.middleware[0] !== middleware || ctx[VISITED] || isWrapped(res)
  ctx[VISITED] = true
  const address = addressOf(ctx)
  return { req, res, native: ctx, address, parsed: parsedOf, dispatch, next, bodyIsSeen }
}

/**
 * Makes Koa wait for a middleware. Koa writes the response only after all middlewares have
 * returned. So a middleware must return as soon as ctx has the response, even if core is still at
 * work.
 */
export class Pause {
  /** Set when core has begun to respond: settles when Koa may go on. */
  passed: Promise<void> | undefined
  /** Settles the promise of a middleware that returned before. */
  #answer: { resolve(passed: void | Promise<void>): void; reject(error: unknown): void } | undefined

  /** Lets Koa go on when the promise settles. */
  until(passed: Promise<void> = PASSED): void {
    this.passed = passed
    this.#answer?.resolve(passed)
  }

  /** Call this in the reactions of `passed`. Koa goes on after `rest`. */
  end(rest?: void | Promise<void>): void | Promise<void> {
    return this.#answer === undefined ? rest : this.#answer.resolve(rest)
  }

  /** As `end`, with an error. */
  fail(error: unknown): void {
    if (this.#answer === undefined) throw error
    this.#answer.reject(error)
  }

  /** The promise that the middleware returns. `handled`: core has finished. */
  promise(handled: void | Promise<void>): Promise<void> {
    const { passed } = this
    if (handled === undefined) return passed ?? PASSED
    if (passed !== undefined) {
      handled.catch((error) => process.emitWarning(error instanceof Error ? error : String(error)))
      return passed
    }
    return new Promise((resolve, reject) => {
      this.#answer = { resolve, reject }
      handled.then(() => void (this.passed ?? resolve()), reject)
    })
  }
}

const PASSED: Promise<void> = Promise.resolve()

/**
 * Further arguments of a function that creates a middleware, of which there are none. TypeScript
 * rejects `app.use(stampedeCache)` by them: a mounted function gets `next`, which is not `never`.
 * The type of the first parameter is not enough, because a Koa context may have any property.
 */
export type Uncalled = readonly never[]
