// What core reads of a request, taken from an IncomingMessage. Scheme and host are the framework's
// answer, because only it knows which proxies are trusted.

import type { IncomingMessage } from 'node:http'
import type { RequestView } from '@stampede/core'

/** The absolute address of a request, as the framework sees it. */
export interface RequestAddress {
  readonly scheme: string
  /** Authority, port included. */
  readonly host: string
  /** Path and query as received, before any mounting changed them. */
  readonly target: string
  /** Where middlewares in front of the cache have sent it instead. */
  readonly rewritten?: string | undefined
}

export function readRequest(req: IncomingMessage, address: RequestAddress): RequestView {
  const { headers } = req
  return {
    method: req.method ?? 'GET',
    scheme: unlessSaidOtherwise(address.scheme, headers[':scheme']),
    host: unlessSaidOtherwise(address.host, headers[':authority'] && headers.host),
    target: address.target,
    rewritten: address.rewritten,
    headers,
  }
}

/**
 * An HTTP/2 client says its host in two places, and a scheme besides that of its connection. A handler may read either: where
 * they disagree, both are in the key.
 */
function unlessSaidOtherwise(known: string, said: string | string[] | undefined): string {
  return said === undefined || said === known ? known : `${known} ${said}`
}

/** Node keeps the address of a peer that left only if it was asked for before; a refresh may need it. */
export function rememberPeer(req: IncomingMessage): string | undefined {
  return req.socket.remoteAddress
}
