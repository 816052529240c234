// Facts about the client that only its connection shows: a TLS certificate, and a login (NTLM).

import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'

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
 * Connections that were logged in with NTLM or Negotiate, and their requests. These schemes log in
 * a whole connection.
 */
const loggedIn = new WeakSet<object>()
/**
 * Whether any connection was logged in. False on most servers, where requests then need no lookup
 * in `loggedIn`.
 */
let isAnyLoggedIn = false

/** Whether this request or an earlier one logged in the connection (RFC 4559 §6). */
export function hasLogin(req: IncomingMessage): boolean {
  const { authorization } = req.headers
  if (authorization !== undefined && /^\s*(ntlm|negotiate)(?![^\s])/i.test(authorization)) {
    isAnyLoggedIn = true
    loggedIn.add(connectionOf(req))
  }
  if (!isAnyLoggedIn || !loggedIn.has(connectionOf(req))) return false
  // inheritLogin() needs the request itself, because an HTTP/2 stream drops its session when it
  // closes.
  loggedIn.add(req)
  return true
}

/**
 * Marks the connection of `refresh` as logged in if the request `from` is logged in. A background
 * refresh has a socket of its own, so hasLogin() would not know it.
 */
export function inheritLogin(from: IncomingMessage, refresh: IncomingMessage): void {
  if (loggedIn.has(from)) loggedIn.add(refresh.socket)
}

/**
 * The connection of a request. On HTTP/2 this is the session, because `req.socket` is a proxy
 * object there.
 */
function connectionOf(req: IncomingMessage): object {
  const { stream } = req as { stream?: { session?: object } }
  return stream?.session ?? req.socket
}
