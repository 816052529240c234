// Where Koa keeps the address of a request.

import type { RequestAddress } from '@stampede/node-http/adapter'
import type { Context } from 'koa'

/** As the handler will read them: an app may define its own on `app.context`, which `ctx.request` knows nothing of. */
export function addressOf(ctx: Context): RequestAddress {
  const { protocol: scheme, host, originalUrl: target } = ctx
  return { scheme, host, target, rewritten: rewrittenOf(ctx) }
}

/** koa-mount takes its path off `url`, leaves a slash at least, and says last where it was. */
function rewrittenOf(ctx: Context): string | undefined {
  const { originalUrl, url, mountPath: mount } = ctx
  if (typeof mount !== 'string') return url === originalUrl ? undefined : url
  const isMounted = [url, url.slice(1)].some((left) => originalUrl.endsWith(mount + left))
  return isMounted ? undefined : mount + url
}
