// Facts about a request in Koa: its address, the layers of its app, the status of an error.

import { STATUS_CODES } from 'node:http'
import { isWrapped, type Layer, type RequestAddress } from '@stampede/node-http/adapter'
import type { Context, default as Koa } from 'koa'

/**
 * The address as the handler reads it from `ctx`. An app may define its own properties on
 * `app.context`, which `ctx.request` does not have.
 */
export function addressOf(ctx: Context): RequestAddress {
  const { protocol: scheme, host, originalUrl: target } = ctx
  return { scheme, host, target, rewritten: rewrittenOf(ctx), trustsProxy: () => ctx.app.proxy }
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

/** The part of the path in front of `ctx.path`, which koa-mount has removed. */
export function mountOf({ originalUrl, path }: Context): string {
  // A target may be a whole URL.
  const [whole = ''] = originalUrl.replace(/^[a-z]+:\/\/[^/]+/i, '').split('?', 1)
  return whole.endsWith(path) ? whole.slice(0, -path.length) : whole
}

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
 * Whether a layer in front can read or change the ctx.body that `middleware` sets: an earlier
 * middleware, or a wrapper of the response.
 */
export function isSeen(ctx: Context, middleware: Koa.Middleware): boolean {
  return ctx.app.middleware[0] !== middleware || isWrapped(ctx.res)
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

/**
 * Further arguments of a function that creates a middleware, of which there are none. TypeScript
 * rejects `app.use(stampedeCache)` by them: a mounted function gets `next`, which is not `never`.
 * The type of the first parameter is not enough, because a Koa context may have any property.
 */
export type Uncalled = readonly never[]
