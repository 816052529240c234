// Where Express keeps the address of a request.

import type { RequestAddress } from '@stampede/node-http'
import type { Request } from 'express'

export function addressOf(req: Request): RequestAddress {
  return { scheme: req.protocol, host: hostOf(req), target: req.originalUrl }
}

/** Express 4's `req.hostname` drops the port, and two ports are two origins. */
function hostOf(req: Request): string {
  const forwarded = req.get('x-forwarded-host')
  const trusts: (address: string | undefined, hop: number) => boolean =
    req.app.get('trust proxy fn')
  if (!forwarded || !trusts(req.socket.remoteAddress, 0)) return req.headers.host ?? ''
  return (forwarded.split(',')[0] ?? '').trim()
}
