// Attacks by TLS and HTTP/2: client certificates, server names, bodies without Content-Length, and
// a Host beside :authority. Clients that differ in these do not share a response.
import { connect as connectHttp2, createSecureServer } from 'node:http2'
import { createServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeFront } from '@stampede/node-http'
import { describe, expect, it } from 'vitest'
import {
  ALICE,
  AUTHORITY,
  BOB,
  type Certificate,
  MALLORY,
  SERVER,
} from '../harness/certificates.ts'
import { FRAMEWORKS, listenerOf, type Target } from './apps.mjs'
import { targetOf } from './targets.mjs'

interface Client {
  readonly certificate?: Certificate
  /** Server name (SNI). '' sends none. Default shop.test. */
  readonly servername?: string
  readonly headers?: Readonly<Record<string, string>>
  /** HTTP/2: sent as a DATA frame without Content-Length. */
  readonly body?: string
}

interface Got {
  readonly body: string
  readonly status: string
}

interface Server extends AsyncDisposable {
  ask(client?: Client): Promise<Got>
}

const SETTINGS = { ...SERVER, ca: AUTHORITY, requestCert: true, rejectUnauthorized: false }

const open = async (
  name: string,
  framework: string,
  isHttp2: boolean,
  rest: Partial<Target> = {},
): Promise<Server> => {
  const stampede = createStampede()
  const listener = listenerOf(framework, { ...targetOf(name), ...rest }, stampede)
  return serve(listener, isHttp2, () => stampede.close())
}

async function serve(
  listener: ReturnType<typeof listenerOf>,
  isHttp2: boolean,
  close: () => Promise<unknown> = async () => {},
): Promise<Server> {
  // HTTP/2 requests and responses have the members of HTTP/1 that are used here.
  const server = isHttp2
    ? createSecureServer(SETTINGS, listener as never)
    : createServer(SETTINGS, listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    ask: (client = {}) => (isHttp2 ? askHttp2(port, client) : askHttp1(port, client)),
    async [Symbol.asyncDispose]() {
      if ('closeAllConnections' in server) server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await close()
    },
  }
}

const tlsOf = ({ certificate, servername = 'shop.test' }: Client) => ({
  ...certificate,
  servername,
  ca: AUTHORITY,
})

function askHttp1(port: number, client: Client): Promise<Got> {
  const headers = { host: 'shop.test', ...client.headers }
  const options = { ...tlsOf(client), port, host: '127.0.0.1', headers, agent: false }
  return new Promise((resolve, reject) => {
    const req = request(options, async (res) =>
      resolve({ body: await text(res), status: String(res.headers['cache-status']) }),
    )
    req.on('error', reject).end()
  })
}

async function askHttp2(port: number, client: Client): Promise<Got> {
  const session = connectHttp2(`https://127.0.0.1:${port}`, tlsOf(client))
  try {
    const headers = { ':path': '/', ':authority': 'shop.test', ...client.headers }
    const stream = session.request(headers, { endStream: client.body === undefined })
    let status = ''
    stream.on('response', (head) => {
      status = String(head['cache-status'])
    })
    if (client.body !== undefined) stream.end(client.body)
    return { body: await text(stream), status }
  } finally {
    session.close()
  }
}

/** Express does not run on HTTP/2. */
const EVERYWHERE = [
  ...FRAMEWORKS.map((framework) => [framework, 'HTTP/1', false] as const),
  ...(['koa', 'koa2', 'node'] as const).map((framework) => [framework, 'HTTP/2', true] as const),
]

describe.each(EVERYWHERE)('the cache over TLS: %s on %s', (framework, _version, isHttp2) => {
  it('serves the response to one client certificate to no client without the same certificate', async () => {
    await using server = await open('greets the client certificate', framework, isHttp2)
    for (const _round of [1, 2]) {
      for (const [name, certificate] of Object.entries({ alice: ALICE, bob: BOB })) {
        const { body, status } = await server.ask({ certificate })
        expect([body, status]).toEqual([`hello ${name}`, expect.stringContaining('bypass')])
        expect(status).toContain('detail=client-certificate')
      }
      expect((await server.ask()).body).toBe('hello undefined')
    }
    expect((await server.ask()).status).toContain('hit')
  })

  it('serves the response to a self-signed certificate to no other client', async () => {
    await using server = await open('greets the client certificate', framework, isHttp2)
    const planted = await server.ask({ certificate: MALLORY })
    expect(planted.body).toBe('hello mallory')
    expect(planted.status).toContain('detail=client-certificate')
    expect((await server.ask()).body).toBe('hello undefined')
  })

  it('counts a certificate even if its client left before its request reached the cache', async () => {
    const outside: Target['outside'] = (req, _res, next) => {
      if (req.headers['x-leave'] === undefined) return next()
      // Like a layer that looks the caller up in a database.
      return new Promise((resolve) => {
        const gone = 'stream' in req ? (req.stream as typeof req.socket) : req.socket
        const certificate = (req.socket as TLSSocket).getPeerCertificate()
        gone.once('close', () => {
          Object.assign(req, { name: String(certificate.subject.CN) })
          resolve(next())
        })
        gone.destroy()
      })
    }
    const handler: Target['handler'] = (req) => ({ body: `hello ${'name' in req && req.name}` })
    await using server = await open('greets the client certificate', framework, isHttp2, {
      outside,
      handler,
    })
    for (const certificate of [ALICE, MALLORY])
      await server.ask({ certificate, headers: { 'x-leave': '1' } }).catch(() => {})
    expect((await server.ask()).body).toBe('hello false')
  })

  it('gives each certificate its own hit if identity puts it in the key', async () => {
    const name = 'greets the client certificate, which is in the key'
    await using server = await open(name, framework, isHttp2)
    for (const isHit of [false, true]) {
      for (const [owner, certificate] of Object.entries({ alice: ALICE, bob: BOB })) {
        const { body, status } = await server.ask({ certificate })
        expect([body, status.includes('hit')]).toEqual([`hello ${owner}`, isHit])
      }
    }
  })

  it('ignores a certificate if authorization.ignore has client-certificate', async () => {
    const name = 'greets everybody, with a certificate or without'
    await using server = await open(name, framework, isHttp2)
    await server.ask({ certificate: ALICE })
    for (const client of [{}, { certificate: BOB }, { certificate: MALLORY }])
      expect((await server.ask(client)).status).toContain('hit')
  })

  it('prints no TLS server name that differs from the host in the responses to other clients', async () => {
    await using server = await open('prints the name in the handshake', framework, isHttp2)
    expect((await server.ask({ servername: 'other.test' })).body).toBe('for other.test')
    expect((await server.ask()).body).toBe('for shop.test')
    expect((await server.ask()).status).toContain('hit')
  })

  it('keeps clients with a server name apart from clients without one', async () => {
    await using server = await open('prints the name in the handshake', framework, isHttp2)
    expect((await server.ask({ servername: '' })).body).toBe('for false')
    expect((await server.ask()).body).toBe('for shop.test')
    expect((await server.ask({ servername: '' })).status).toContain('hit')
  })

  it('redirects no other client to its own URL after a request with a host in upper case', async () => {
    await using server = await open('redirects to its own host', framework, isHttp2)
    const headers = isHttp2 ? { ':authority': 'SHOP.test' } : { host: 'SHOP.test' }
    await server.ask({ headers })
    expect((await server.ask()).body).toBe('page')
  })
})

describe.each(['koa', 'koa2', 'node'])('the cache over HTTP/2: %s', (framework) => {
  it('does not print the body of a GET in the responses to other clients', async () => {
    await using server = await open('prints the body of a GET', framework, true)
    const planted = await server.ask({ body: 'evil' })
    expect([planted.body, planted.status]).toEqual([
      'body: evil',
      expect.stringContaining('detail=request-body'),
    ])
    expect((await server.ask()).body).toBe('body: ')
    expect((await server.ask()).status).toContain('hit')
  })

  it('does not print a Host beside :authority in the responses to other clients', async () => {
    await using server = await open('prints Host', framework, true)
    expect((await server.ask({ headers: { host: 'evil.test' } })).body).toBe('//evil.test/app.js')
    expect((await server.ask()).body).not.toContain('evil')
  })
})

it.each(FRAMEWORKS.filter((framework) => framework !== 'node'))(
  'a refresh by stampedeFront stores no response for a certificate in a cache of the app: %s',
  async (framework) => {
    const clock = new ManualClock()
    const [outer, inner] = [createStampede({ clock }), createStampede({ clock })]
    const target = targetOf('greets everybody, with a certificate or without')
    let runs = 0
    const handler: Target['handler'] = () => ({ body: `run ${++runs}` })
    const app = listenerOf(framework, { ...target, options: {}, handler }, inner)
    const identity = ({ socket }: { socket: object }) =>
      String((socket as TLSSocket).getPeerCertificate?.().subject?.CN)
    const front = stampedeFront(app, {
      ...{ stampede: outer, identity, ttlMs: 1_000, staleWhileRevalidateMs: 60_000 },
    })
    await using server = await serve(front, false)
    expect((await server.ask({ certificate: ALICE })).body).toBe('run 1')
    await clock.advance(2_000)
    expect((await server.ask({ certificate: ALICE })).body).toBe('run 1')
    await expect.poll(() => outer.stats().fills.committed).toBe(2)
    expect(runs).toBe(2)
    expect((await server.ask()).body).toBe('run 3')
    expect(inner.stats().l1.entries).toBeLessThanOrEqual(1)
    await Promise.all([outer.close(), inner.close()])
  },
)
