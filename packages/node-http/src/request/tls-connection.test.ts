import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { IncomingMessage, type ServerResponse } from 'node:http'
import { connect as connectHttp2, createSecureServer } from 'node:http2'
import { createServer, get } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { expect, it } from 'vitest'
import { stampedeFront } from '../front.ts'
import { createDetachedPair, tlsMembersOf } from '../revalidation.ts'
import { readRequest } from './read-request.ts'

const CERTIFICATES = new URL('../../../../test/harness/certificates/', import.meta.url)
const pem = (name: string) => readFileSync(new URL(`${name}.pem`, CERTIFICATES))
const identityOf = (name: string) => ({ cert: pem(name), key: pem(`${name}-key`) })
const SERVER = { ...identityOf('server'), ca: pem('ca'), requestCert: true }

/** TLS state that a handler may read. */
const stateOf = (socket: TLSSocket) => ({
  names: [socket.getPeerCertificate().subject?.CN, socket.getPeerX509Certificate()?.subject],
  issuer: socket.getPeerCertificate(true).issuerCertificate?.subject?.CN,
  raw: socket.getPeerCertificate(),
  own: socket.getCertificate(),
  x509: socket.getX509Certificate()?.fingerprint256,
  cipher: socket.getCipher(),
  protocol: socket.getProtocol(),
  session: socket.getSession(),
  isReused: socket.isSessionReused(),
  finished: [socket.getFinished(), socket.getPeerFinished()],
  others: [socket.getEphemeralKeyInfo(), socket.getSharedSigalgs(), socket.getTLSTicket()],
  authorized: [socket.encrypted, socket.authorized, socket.authorizationError],
  serverAndProtocol: [socket.servername, socket.alpnProtocol],
})

it.each([
  ['with a certificate', identityOf('alice')],
  ['without a certificate', {}],
])('a background refresh has the TLS state of a client %s that has left', async (_, client) => {
  let seen: IncomingMessage | undefined
  let before: ReturnType<typeof stateOf> | undefined
  const server = createServer({ ...SERVER, rejectUnauthorized: false }, (req, res) => {
    seen = req
    before = stateOf(req.socket as TLSSocket)
    tlsMembersOf(req)
    res.end()
  }).listen(0)
  const { port } = server.address() as AddressInfo
  const options = { port, host: 'localhost', ca: pem('ca'), agent: false as const, ...client }
  get(options, (res) => res.resume())
  const [socket] = await once(server, 'secureConnection')
  await once(socket, 'close')
  server.close()
  if (seen === undefined) throw new Error('no request came')
  const { req } = createDetachedPair(seen, '/')
  expect(stateOf(req.socket as TLSSocket)).toEqual(before)
  expect(before?.names[0]).toBe('cert' in client ? 'alice' : undefined)
})

it('a background refresh has the TLS state of an HTTP/2 client that has left', async () => {
  let seen: IncomingMessage | undefined
  const server = createSecureServer({ ...SERVER, rejectUnauthorized: true }, (req, res) => {
    seen = req as unknown as IncomingMessage
    tlsMembersOf(seen)
    res.end()
  }).listen(0)
  const { port } = server.address() as AddressInfo
  const client = connectHttp2(`https://localhost:${port}`, { ca: pem('ca'), ...identityOf('bob') })
  const [session] = await once(server, 'session')
  await once(client.request({ ':path': '/' }).resume(), 'end')
  client.close()
  await once(session, 'close')
  server.close()
  if (seen === undefined) throw new Error('no request came')
  const { req } = createDetachedPair(seen, '/')
  expect(stateOf(req.socket as TLSSocket)).toMatchObject({
    names: ['bob', 'CN=bob'],
    issuer: 'Stampede test CA',
    authorized: [true, true, null],
    serverAndProtocol: ['localhost', 'h2'],
  })
  const address = { scheme: 'https', host: 'localhost', target: '/' }
  expect(readRequest(req, address)).toMatchObject({
    hasClientCertificate: true,
    servername: 'localhost',
  })
})

it('a background refresh without TLS has no getPeerCertificate, even if a host sets `encrypted`', () => {
  for (const socket of [{ remoteAddress: '::1' }, { encrypted: true }]) {
    const { req } = createDetachedPair(new IncomingMessage(socket as unknown as TLSSocket), '/')
    expect(Reflect.get(req.socket, 'encrypted')).toBe(Reflect.get(socket, 'encrypted'))
    expect(req.socket).not.toHaveProperty('getPeerCertificate')
  }
})

it('each background refresh has the certificate of the client whose request caused it', async () => {
  const clock = new ManualClock()
  const stampede = createStampede({ clock })
  let runs = 0
  const nameOf = ({ socket }: IncomingMessage) =>
    String((socket as TLSSocket).getPeerCertificate().subject.CN)
  const front = stampedeFront(
    (req: IncomingMessage, res: ServerResponse) => {
      runs += 1
      res.end(`${nameOf(req)}, run ${runs}`)
    },
    { stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000, identity: nameOf },
  )
  const server = createServer(SERVER, front).listen(0)
  const { port } = server.address() as AddressInfo
  const ask = async (name: string) => {
    const identity = { ca: pem('ca'), ...identityOf(name) }
    const request = get({ port, host: 'localhost', agent: false, ...identity })
    const [res] = (await once(request, 'response')) as [IncomingMessage]
    return (await res.toArray()).join('')
  }
  const committed = (n: number) =>
    new Promise<void>((resolve) => {
      let left = n
      stampede.on('fill.committed', () => --left === 0 && resolve())
    })
  expect([await ask('alice'), await ask('bob')]).toEqual(['alice, run 1', 'bob, run 2'])
  await clock.advance(2_000)
  const refreshed = committed(2)
  expect([await ask('alice'), await ask('bob')]).toEqual(['alice, run 1', 'bob, run 2'])
  await refreshed
  expect([await ask('alice'), await ask('bob')]).toEqual(['alice, run 3', 'bob, run 4'])
  server.close()
})
