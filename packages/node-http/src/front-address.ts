// The address of a request that no framework has seen: what its connection and its own head say, and no proxy.

import type { IncomingMessage } from 'node:http'
import type { RequestAddress } from './read-request.ts'

export function addressOf(req: IncomingMessage): RequestAddress {
  const { socket, headers, url: target = '/' } = req
  const scheme = 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http'
  return { scheme, host: headers.host ?? authorityOf(req), target }
}

/** Of HTTP/2, where clients need not send Host. */
function authorityOf({ headers }: IncomingMessage): string {
  return String(headers[':authority'] ?? '')
}
