// The address of a request in Koa: scheme, host, target and rewritten URL.

import type { RequestAddress } from '@stampede/node-http/adapter'
import type { Context } from 'koa'

/**
 * The address as the handler reads it from `ctx`. An app may define its own properties on
 * `app.context`, which `ctx.request` does not have.
 */
export function addressOf(ctx: Context): RequestAddress {
  const { protocol: scheme, host, originalUrl: target } = ctx
  const trustsProxy = () => ctx.app.proxy
  return { scheme, host, target, rewritten: rewrittenOf(ctx), trustsProxy }
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
