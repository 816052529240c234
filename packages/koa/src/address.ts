// Where Koa keeps the address of a request.

import type { RequestAddress } from '@stampede/node-http'
import type { Context } from 'koa'

export function addressOf(ctx: Context): RequestAddress {
  const { protocol: scheme, host } = ctx.request
  return { scheme, host, target: ctx.originalUrl, rewritten: rewrittenOf(ctx) }
}

/** koa-mount takes its path off `url`, leaves a slash at least, and says last where it was. */
function rewrittenOf(ctx: Context): string | undefined {
  const { originalUrl, mountPath: mount } = ctx
  const { url } = ctx.request
  if (typeof mount !== 'string') return url === originalUrl ? undefined : url
  const isMounted = [url, url.slice(1)].some((left) => originalUrl.endsWith(mount + left))
  return isMounted ? undefined : mount + url
}
