// Facts about the client that only its connection shows: HTTP/2, TLS, a login (NTLM).

import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'

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

/** Methods of a TLSSocket without arguments, whose result stays the same until a new handshake. */
const METHODS = [
  'getPeerX509Certificate',
  'getCertificate',
  'getX509Certificate',
  'getCipher',
  'getProtocol',
  'getSession',
  'isSessionReused',
  'getFinished',
  'getPeerFinished',
  'getEphemeralKeyInfo',
  'getSharedSigalgs',
  'getTLSTicket',
] as const

/** Members of a TLSSocket, with methods that return recorded results. */
export type TlsMembers = Readonly<Partial<TLSSocket>>

const known = new WeakMap<object, TlsMembers>()

/**
 * The TLS members of a request's connection, read once per handshake. Undefined without TLS. A
 * background refresh may begin after the client has closed its connection, and a closed TLSSocket
 * returns null for all members.
 */
export function tlsMembersOf(req: IncomingMessage): TlsMembers | undefined {
  const stream = memberOf(req, 'stream')
  const found = known.get(stream ?? req.socket)
  if (found !== undefined) return found
  // Serverless hosts pass a plain object that has only some members of a TLSSocket.
  const socket = req.socket as Partial<TLSSocket>
  if (socket.encrypted !== true) return undefined
  // On HTTP/2, all streams of a session share one result. It is also stored by stream, because a
  // stream drops its session when it closes.
  const session = stream && memberOf(stream, 'session')
  const members = (session && known.get(session)) ?? read(socket)
  known.set(stream ?? socket, members)
  if (session !== undefined) known.set(session, members)
  // A TLS 1.2 client may renegotiate with another certificate. HTTP/2 forbids that.
  if (stream === undefined) socket.once?.('secure', () => known.delete(socket))
  return members
}

function memberOf(owner: object, name: string): object | undefined {
  const member: unknown = Reflect.get(owner, name)
  return member instanceof Object ? member : undefined
}

/** Reads the members. Members that the socket lacks stay absent, because handlers test for them. */
function read(socket: Partial<TLSSocket>): TlsMembers {
  const { authorized, authorizationError, servername, alpnProtocol } = socket
  const members: Record<string, unknown> = {
    encrypted: true,
    authorized,
    authorizationError,
    servername,
    alpnProtocol,
  }
  const certificate = socket.getPeerCertificate?.(true)
  if (certificate) members.getPeerCertificate = peerCertificate(certificate)
  for (const method of METHODS) {
    if (typeof socket[method] !== 'function') continue
    const result: unknown = socket[method]()
    members[method] = () => result
  }
  return members
}

/**
 * Works like getPeerCertificate(): the result has the issuer only if `detailed`. Without a
 * certificate it is an empty object.
 */
function peerCertificate(detailed: DetailedPeerCertificate) {
  const plain: Partial<DetailedPeerCertificate> = { ...detailed }
  delete plain.issuerCertificate
  return (isDetailed?: boolean) => (isDetailed ? detailed : { ...plain })
}
