// Who may use the lab, change prices and order. A stampede is a load generator, prices and tins are everybody's,
// so all answer only to the machine the shop runs on, whatever interface the shop listens on.

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from './answer.ts'

/** What is looked at of a request. */
interface Caller {
  readonly headers: IncomingHttpHeaders
  readonly socket: { readonly remoteAddress?: string | undefined }
}

const LOOPBACK_ADDRESS = /^(::1|(::ffff:)?127\.\d+\.\d+\.\d+)$/
const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i

/** Throws a 403 `Problem` unless the request comes from this machine, and was meant for it. */
export function refuseStrangers(message: Caller): void {
  const { headers, socket } = message
  // A proxy on this machine would lend its own address to the whole world.
  const proxied = headers.forwarded !== undefined || headers['x-forwarded-for'] !== undefined
  const near = LOOPBACK_ADDRESS.test(socket.remoteAddress ?? '')
  // The Host names another site when a page there had its own name resolve to 127.0.0.1 (DNS rebinding).
  const meant = LOOPBACK_HOST.test(headers.host ?? '')
  if (near && meant && !proxied) return
  const detail =
    'Open the shop as localhost, on the machine it runs on, to use the lab, change prices or order.'
  throw new Problem(403, 'Only from this machine', detail)
}
