// Facts about the client that only its connection shows: a TLS certificate, and a login (NTLM).

import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'

/** The members read here. On HTTP/2 each read goes through a slow proxy to the session's socket. */
export type ClientSocket = Partial<
  Pick<TLSSocket, 'authorized' | 'authorizationError' | 'getPeerCertificate' | 'servername'>
>

/**
 * Whether the client sent a certificate. True also for an invalid one, which a server with
 * `rejectUnauthorized: false` accepts.
 */
export function hasClientCertificate(socket: ClientSocket): boolean {
  if (socket.authorized === true) return true
  // A client without a certificate has an error too, so the certificate itself decides.
  if (!socket.authorizationError) return false
  const certificate: object | null | undefined = socket.getPeerCertificate?.()
  // Null after the connection has closed. True is the safe side: the request bypasses the cache.
  return certificate == null || Object.keys(certificate).length > 0
}

/** Connections that sent NTLM or Negotiate, which log in a whole connection, and their requests. */
const loggedIn = new WeakSet<object>()
/** Spares every request the lookup on a server where no client logs in like this. */
let isAnyLoggedIn = false

/** Whether this request or an earlier one logged in the connection (RFC 4559 §6). */
export function hasLogin(req: IncomingMessage): boolean {
  const { authorization } = req.headers
  if (authorization !== undefined && /^\s*(ntlm|negotiate)(?![^\s])/i.test(authorization)) {
    isAnyLoggedIn = true
    loggedIn.add(connectionOf(req))
  }
  if (!isAnyLoggedIn || !loggedIn.has(connectionOf(req))) return false
  // For inheritLogin(): an HTTP/2 stream forgets its session when it closes.
  loggedIn.add(req)
  return true
}

/** Marks `refresh`, which has a socket of its own, as logged in if `from` is. */
export function inheritLogin(from: IncomingMessage, refresh: IncomingMessage): void {
  if (loggedIn.has(from)) loggedIn.add(refresh.socket)
}

/** On HTTP/2 the session: `req.socket` is another proxy object there. */
function connectionOf(req: IncomingMessage): object {
  const { stream } = req as { stream?: { session?: object } }
  return stream?.session ?? req.socket
}
