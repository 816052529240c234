// TLS state of a connection, read while it is open and remembered for background refreshes. A
// refresh may begin after the client has closed its connection, and a closed TLSSocket returns null
// for all members.

import type { IncomingMessage } from 'node:http'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'

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

/** The TLS members of a request's connection, read once per handshake. Undefined without TLS. */
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
