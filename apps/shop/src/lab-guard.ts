// Limits the lab, price changes and orders to this machine. A stampede is a load generator, and all
// visitors share prices and stock. The limit holds on every network interface.

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from './response.ts'

/** The parts of a request that are checked. */
interface Caller {
  readonly headers: IncomingHttpHeaders
  readonly socket: { readonly remoteAddress?: string | undefined }
}

const LOOPBACK_ADDRESS = /^(::1|(::ffff:)?127\.\d+\.\d+\.\d+)$/
const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i

/** Whether the request comes from this machine and addresses it as localhost. */
export function isLocal({ headers, socket }: Caller): boolean {
  // A request through a proxy on this machine has a local address, although its client does not.
  const proxied = headers.forwarded !== undefined || headers['x-forwarded-for'] !== undefined
  const isLoopback = LOOPBACK_ADDRESS.test(socket.remoteAddress ?? '')
  // With DNS rebinding, a page of another site reaches 127.0.0.1 under its own host name.
  const isHostLocal = LOOPBACK_HOST.test(headers.host ?? '')
  return isLoopback && isHostLocal && !proxied
}

/** Throws a 403 `Problem` for all other requests. */
export function requireLocal(message: Caller): void {
  if (isLocal(message)) return
  const detail =
    'To use the lab, to change prices or to order, open the shop as localhost on its own machine.'
  throw new Problem(403, 'Only from this machine', detail)
}
