// Where Express keeps the address of a request.

import type { RequestAddress } from '@stampede/node-http/adapter'
import type { Request } from 'express'

export function addressOf(req: Request): RequestAddress {
  const { headers } = req
  // Both are what is asked for without a proxy; only what it says takes Express's settings.
  const scheme = headers['x-forwarded-proto'] === undefined ? schemeOf(req.socket) : req.protocol
  const host = headers['x-forwarded-host'] === undefined ? (headers.host ?? '') : hostOf(req)
  return { scheme, host, target: req.originalUrl, rewritten: rewrittenOf(req) }
}

const schemeOf = (socket: object): string =>
  'encrypted' in socket && socket.encrypted === true ? 'https' : 'http'

/** A mount only moves a part from `url` to `baseUrl`, and gives what is left a slash to begin with. */
function rewrittenOf({ originalUrl, baseUrl, url }: Request): string | undefined {
  if (url === originalUrl && baseUrl === '') return undefined
  const isMounted = originalUrl === baseUrl + url || originalUrl === baseUrl + url.slice(1)
  return isMounted ? undefined : baseUrl + url
}

/** Express 4's `req.hostname` drops the port, and two ports are two origins. */
function hostOf(req: Request): string {
  const forwarded = req.get('x-forwarded-host')
  const trusts: (address: string | undefined, hop: number) => boolean =
    req.app.get('trust proxy fn')
  if (!forwarded || !trusts(req.socket.remoteAddress, 0)) return req.headers.host ?? ''
  return (forwarded.split(',')[0] ?? '').trim()
}
