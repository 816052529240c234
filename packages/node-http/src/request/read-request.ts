// Reads the RequestView of core from an IncomingMessage. Scheme and host come from the framework,
// because only the framework knows which proxies are trusted.

import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { RequestView } from '@stampede/core/adapter'
import { type ClientSocket, hasClientCertificate, hasLogin } from './connection.ts'
import { lostLines } from './lost-lines.ts'
import { tlsMembersOf } from './tls-connection.ts'

/** The absolute address of a request, as the framework sees it. */
export interface RequestAddress {
  readonly scheme: string
  /** Authority, port included. */
  readonly host: string
  /** Path and query as received, before any mounting changed them. */
  readonly target: string
  /** Path and query as rewritten by middlewares in front of the cache, if they differ. */
  readonly rewritten?: string | undefined
  /** See `RequestView`. */
  readonly chosenBy?: string | undefined
  /** Whether the framework trusts the sender of the request as a proxy. Default: it does not. */
  readonly trustsProxy?: (() => boolean) | undefined
}

/** The parts of a request that core reads. */
export function readRequest(req: IncomingMessage, address: RequestAddress): RequestView {
  const { headers } = req
  const { socket }: { socket: ClientSocket } = req as IncomingMessage & { socket: TLSSocket }
  return {
    method: req.method ?? 'GET',
    scheme: schemeOf(address.scheme, headers[':scheme']),
    host: address.host,
    target: address.target,
    rewritten: address.rewritten,
    chosenBy: address.chosenBy,
    headers,
    lostLines: lostLines(req),
    hasBody: hasUnframedBody(req),
    hasClientCertificate: hasClientCertificate(socket),
    hasLogin: hasLogin(req, address.trustsProxy),
    servername: servernameOf(socket),
  }
}

/** RFC 9113 §8.1: over HTTP/2 a request can have a body without Content-Length. */
function hasUnframedBody(req: IncomingMessage): boolean {
  const { stream } = req as { stream?: { endAfterHeaders?: boolean } }
  return stream?.endAfterHeaders === false
}

/** The address of a request, from its connection and its head. No proxy is trusted. */
export function addressOf(req: IncomingMessage): RequestAddress {
  const { socket, headers, url: target = '/' } = req
  const scheme = 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http'
  // RFC 9113 §8.3.1: the Host field counts if the request has no :authority.
  const host = String(headers[':authority'] ?? headers.host ?? '')
  return { scheme, host, target }
}

/**
 * In Node, `servername` is `false` for a TLS client that sent no name. Without TLS it is absent or
 * null.
 */
function servernameOf({ servername }: ClientSocket): string | undefined {
  return (servername as string | false | null | undefined) === false ? '' : servername || undefined
}

/**
 * The scheme for the key. An HTTP/2 client may send another scheme than that of its connection. A
 * handler may read either scheme, so both are in the key if they differ.
 */
function schemeOf(known: string, sent: string | string[] | undefined): string {
  return sent === undefined || sent === known ? known : `${known} ${sent}`
}

/**
 * Reads the client's address and its TLS state. Node drops both when the connection closes, and a
 * background refresh may run after that.
 */
export function rememberPeer(req: IncomingMessage): void {
  void req.socket.remoteAddress
  tlsMembersOf(req)
}
