// TLS state of a connection, read while it is open and kept for refreshes. A refresh may begin
// after the client has closed its connection, and a closed TLSSocket returns null for all of this.

import type { IncomingMessage } from 'node:http'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'

/**
 * Methods of a TLSSocket whose result depends on no argument and stays the same until a new
 * handshake.
 */
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
  // A TLSSocket, or less: serverless hosts pass a plain object.
  const socket = req.socket as Partial<TLSSocket>
  if (socket.encrypted !== true) return undefined
  // HTTP/2: streams share the result by their session. A stream forgets its session when it closes,
  // so the result is kept by stream, too.
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

/** Members that the socket lacks stay absent: hosts differ, and handlers test for them. */
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
 * As getPeerCertificate(): names the issuer only if `detailed`. Without a certificate: an empty
 * object.
 */
function peerCertificate(detailed: DetailedPeerCertificate) {
  const plain: Partial<DetailedPeerCertificate> = { ...detailed }
  delete plain.issuerCertificate
  return (isDetailed?: boolean) => (isDetailed ? detailed : { ...plain })
}
