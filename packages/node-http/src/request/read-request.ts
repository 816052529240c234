// Reads the RequestView of core from an IncomingMessage. Scheme and host come from the framework,
// because only the framework knows which proxies are trusted.

import type { IncomingHttpHeaders, IncomingMessage, Server } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { RequestView } from '@stampede/core/adapter'
import { type ClientSocket, hasClientCertificate, hasLogin, tlsMembersOf } from './connection.ts'

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
  const { servername }: { servername?: string | false | null } = socket
  return {
    method: req.method ?? 'GET',
    scheme: schemeOf(address.scheme, headers[':scheme']),
    host: address.host,
    target: address.target,
    rewritten: address.rewritten,
    chosenBy: address.chosenBy,
    headers,
    lostLines: lostLines(req),
    // RFC 9113 §8.1: over HTTP/2 a request can have a body without Content-Length.
    hasBody: (req as { stream?: { endAfterHeaders?: boolean } }).stream?.endAfterHeaders === false,
    hasClientCertificate: hasClientCertificate(socket),
    hasLogin: hasLogin(req, address.trustsProxy),
    // In Node, it is `false` for a TLS client that sent no name. Without TLS it is absent or null.
    servername: servername === false ? '' : servername || undefined,
  }
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

/** A request of Express, which has an `app`, or of Fastify. */
export interface ProxiedRequest {
  readonly app?: { get(name: string): unknown }
  readonly headers: IncomingHttpHeaders
  readonly socket?: { readonly remoteAddress?: string | undefined }
}

/** Whether the options of the framework allow the peer to name its clients, as proxies do. */
export function trustsPeer(request: ProxiedRequest): boolean {
  const { app, socket } = request
  const fn = app?.get('trust proxy fn')
  if (typeof fn === 'function') return fn(socket?.remoteAddress, 0)
  // Fastify tells by the addresses that it finds for a request of that peer.
  const raw = { socket, headers: { 'x-forwarded-for': '192.0.2.1' } }
  const probe: { ips?: readonly string[] } = Object.create(request, { raw: { value: raw } })
  return probe.ips?.length === 2
}

/**
 * The host with its port, as `trust proxy` of Express determines it. Two ports are two origins, but
 * `req.hostname` has no port. `req.host` of Express 4 has none either, and prints a warning.
 */
export function expressHost(request: ProxiedRequest): string {
  const { headers } = request
  const forwarded = headers['x-forwarded-host']
  if (!forwarded || !trustsPeer(request)) return headers.host ?? ''
  return (String(forwarded).split(',')[0] ?? '').trim()
}

/** Node keeps 1 000 lines unless `server.maxHeadersCount` is set. */
const DEFAULT_LENGTH = 2_000

/**
 * Fields of which Node keeps the first line only. It drops `__proto__` itself. The last 17 are such
 * fields over HTTP/2 only.
 */
const SINGLE = [
  ...['__proto__', 'max-forwards', 'retry-after', 'location', 'server', 'host', 'authorization'],
  ...['proxy-authorization', 'user-agent', 'referer', 'from', 'content-type', 'content-length'],
  ...['if-modified-since', 'if-unmodified-since', 'age', 'etag', 'expires', 'last-modified'],
  ...['access-control-allow-credentials', 'access-control-max-age', 'content-encoding', 'dnt'],
  ...['access-control-request-method', 'content-language', 'content-location', 'content-md5'],
  ...['content-range', 'date', 'if-match', 'if-none-match', 'if-range', 'range', 'tk'],
  ...['upgrade-insecure-requests', 'x-content-type-options'],
]

/** A bit for each of these fields, by `slotOf`. Two fields may share a bit or a slot. */
const BITS = new Int32Array(1_024)
for (const [i, name] of SINGLE.entries()) BITS[slotOf(name)] = i === 0 ? 1 : 2 << (i % 31)

/** Distinguishes names without a copy in lower case. */
function slotOf(name: string): number {
  return ((name.length & 31) << 5) | (name.charCodeAt(0) & 31)
}

/**
 * The reason why `req.headers` does not have all lines of the request. A handler may still see the
 * others: in `req.rawHeaders`, in the fields of a web Request, or as a body that they announce. So
 * such a request has no reliable key.
 */
export function lostLines(req: IncomingMessage): RequestView['lostLines'] {
  const { rawHeaders } = req
  if (isCut(req, rawHeaders.length)) return 'cut-head'
  let seen = BITS[slotOf('__proto__')] as number
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const bit = BITS[slotOf(rawHeaders[i] as string)] as number
    if ((seen & bit) !== 0 && SINGLE.some((name) => isDropped(req, name))) return 'repeated-field'
    seen |= bit
  }
  return undefined
}

/**
 * Whether Node may have dropped lines. Its parser stops at the first batch of lines that reaches
 * the limit. `rawHeaders` has that whole batch, `headers` ends at the limit.
 */
function isCut({ socket, httpVersionMajor }: IncomingMessage, length: number): boolean {
  // HTTP/2 refuses a head that is too long.
  if (httpVersionMajor > 1) return false
  // A request without a server was made in this process, such as one of a background refresh.
  const { server } = socket as { server?: Partial<Server> | null }
  if (!server) return false
  const { maxHeadersCount: most } = server
  const limit = typeof most === 'number' ? most << 1 : DEFAULT_LENGTH
  return limit > 0 && length >= limit
}

function isDropped(req: IncomingMessage, name: string): boolean {
  const lines = linesOf(req, name)
  return lines.length > (name === '__proto__' ? 0 : 1) && req.headers[name] !== lines.join(', ')
}

/**
 * All lines of one field. `req.headers` joins them. `req.headersDistinct` would group all other
 * fields too, and HTTP/2 requests do not have it.
 */
export function linesOf({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  const lines: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const field = rawHeaders[i] as string
    if (field.length === name.length && field.toLowerCase() === name) {
      lines.push(rawHeaders[i + 1] as string)
    }
  }
  return lines
}
