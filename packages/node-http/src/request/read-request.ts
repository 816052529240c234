// Reads the RequestView of core from an IncomingMessage: its head, and facts of its connection.
// Those are TLS and a login. Scheme and host come from the framework, because only the framework
// knows which proxies are trusted.

import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { Exchange } from '@stampede/core/adapter'

type RequestView = Exchange['request']

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
  const { scheme } = address
  const { ':scheme': sent } = headers
  const { socket }: { socket: ClientSocket } = req as IncomingMessage & { socket: TLSSocket }
  const { servername }: { servername?: string | false | null } = socket
  return {
    method: req.method ?? 'GET',
    // An HTTP/2 client may send another scheme than that of its connection. A handler may read
    // either scheme, so both are in the key if they differ.
    scheme: sent === undefined || sent === scheme ? scheme : `${scheme} ${sent}`,
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
  const { rawHeaders, socket, httpVersionMajor } = req
  // HTTP/2 refuses a head that is too long. A request without a server was made in this process,
  // such as one of a background refresh.
  const { server } = (httpVersionMajor > 1 ? {} : socket) as { server?: Partial<Server> | null }
  if (server) {
    const { maxHeadersCount: most } = server
    const limit = typeof most === 'number' ? most << 1 : DEFAULT_LENGTH
    // Node's parser stops at the first batch of lines that reaches the limit. `rawHeaders` has that
    // whole batch, `headers` ends at the limit.
    if (limit > 0 && rawHeaders.length >= limit) return 'cut-head'
  }
  let seen = BITS[slotOf('__proto__')] as number
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const bit = BITS[slotOf(rawHeaders[i] as string)] as number
    if ((seen & bit) !== 0 && SINGLE.some((name) => isDropped(req, name))) return 'repeated-field'
    seen |= bit
  }
  return undefined
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

// The connection

/** Whether this is a compatibility object of node:http2. */
export function isHttp2(res: ServerResponse): boolean {
  return 'stream' in res
}

/**
 * The members of a socket that are read here. On HTTP/2, each read goes through a slow proxy to the
 * session's socket.
 */
export type ClientSocket = Partial<
  Pick<TLSSocket, 'authorized' | 'authorizationError' | 'getPeerCertificate' | 'servername'>
>

/**
 * Whether the client sent a certificate, even an invalid one. A server with `rejectUnauthorized:
 * false` accepts invalid certificates.
 */
export function hasClientCertificate(socket: ClientSocket): boolean {
  if (socket.authorized === true) return true
  // A client without a certificate has an error too, so look at the certificate itself.
  if (!socket.authorizationError) return false
  const certificate: object | null | undefined = socket.getPeerCertificate?.()
  // The certificate is null after the connection has closed. True is safe, because the request then
  // bypasses the cache.
  return certificate == null || Object.keys(certificate).length > 0
}

/**
 * The clients that logged in with NTLM or Negotiate, by connection. These schemes log in a whole
 * connection. Each client is a hash of 16 bits, so that made-up clients need little memory. An
 * equal hash of two clients only makes requests bypass the cache.
 */
const logins = new WeakMap<object, Set<number>>()
/**
 * Whether any connection was logged in. False on most servers, where requests then need no lookup
 * in `logins`.
 */
let isAnyLoggedIn = false
/** Requests of a login, for `inheritLogin`: an HTTP/2 stream drops its session when it closes. */
const loggedIn = new WeakSet<object>()

/** The client of a connection without a trusted proxy. It is the client of all requests. */
const EVERY = -1

/**
 * Whether this request or an earlier one logged in the connection (RFC 4559 §6). A trusted proxy
 * uses a connection for many clients. So the login there is that of the client that the proxy named
 * with it.
 */
export function hasLogin(req: IncomingMessage, trustsProxy?: () => boolean): boolean {
  const { authorization } = req.headers
  const logsIn = authorization !== undefined && LOGIN.test(authorization)
  if (!logsIn && !isAnyLoggedIn) return false
  const connection = connectionOf(req)
  let clients = logins.get(connection)
  if (clients === undefined && !logsIn) return false
  const client = trustsProxy?.() ? namedClient(req) : EVERY
  if (logsIn) {
    isAnyLoggedIn = true
    clients ??= new Set()
    logins.set(connection, clients.add(client))
  }
  if (client !== EVERY && !clients?.has(client) && !clients?.has(EVERY)) return false
  loggedIn.add(req)
  return true
}

const LOGIN = /^\s*(ntlm|negotiate)(?![^\s])/i

/** Hash of the fields in which a proxy names its client. */
function namedClient({ headers }: IncomingMessage): number {
  const named = ['x-forwarded-for', 'forwarded', 'x-real-ip'].map((name) => headers[name] ?? '')
  if (named.every((value) => value === '')) return EVERY
  return createHash('sha256').update(JSON.stringify(named)).digest().readUInt16BE()
}

/**
 * Marks the connection of `refresh` as logged in if the request `from` is logged in. A background
 * refresh has a socket of its own, so hasLogin() would not know it.
 */
export function inheritLogin(from: IncomingMessage, refresh: IncomingMessage): void {
  if (loggedIn.has(from)) logins.set(refresh.socket, new Set([EVERY]))
}

/**
 * The connection of a request. On HTTP/2 this is the session, because `req.socket` is a proxy
 * object there.
 */
function connectionOf(req: IncomingMessage): object {
  const { stream } = req as { stream?: { session?: object } }
  return stream?.session ?? req.socket
}
