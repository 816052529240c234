// The address of a request in Express: scheme, host, target and rewritten URL.

import { expressHost, type RequestAddress, trustsPeer } from '@stampede/node-http/adapter'
import type { Request } from 'express'

export function addressOf(req: Request): RequestAddress {
  const { headers } = req
  // Express uses the fields of a proxy only if `trust proxy` allows it. Without such fields the
  // setting has no effect.
  const scheme = headers['x-forwarded-proto'] === undefined ? schemeOf(req.socket) : req.protocol
  const host = headers['x-forwarded-host'] === undefined ? (headers.host ?? '') : expressHost(req)
  const trustsProxy = () => trustsPeer(req)
  return { scheme, host, target: req.originalUrl, rewritten: rewrittenOf(req), trustsProxy }
}

const schemeOf = (socket: object): string =>
  'encrypted' in socket && socket.encrypted === true ? 'https' : 'http'

/**
 * The URL, if a middleware rewrote it. A mount does not count as rewriting: it moves a part of
 * `url` to `baseUrl`, and begins the rest with a slash.
 */
function rewrittenOf({ originalUrl, baseUrl, url }: Request): string | undefined {
  if (url === originalUrl && baseUrl === '') return undefined
  const isMounted = originalUrl === baseUrl + url || originalUrl === baseUrl + url.slice(1)
  return isMounted ? undefined : baseUrl + url
}
