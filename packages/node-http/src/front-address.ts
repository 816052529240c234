// The address of a request that no framework has seen: what its connection and its own head say, and no proxy.

import type { IncomingMessage } from 'node:http'
import type { RequestAddress } from './request/read-request.ts'

export function addressOf(req: IncomingMessage): RequestAddress {
  const { socket, headers, url: target = '/' } = req
  const scheme = 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http'
  // RFC 9113 §8.3.1: Host counts where there is no authority.
  const host = String(headers[':authority'] ?? headers.host ?? '')
  return { scheme, host, target }
}
