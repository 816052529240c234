// The clients: they send each request as its person does, and record every byte of the response.

import { Agent, type IncomingMessage, request } from 'node:http'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { gunzipSync } from 'node:zlib'
import { CERTIFICATES, HEADER_OF } from './people.ts'
import { cachesOf, type RequestSpec, type Scenario } from './scenario.ts'

export interface Received {
  readonly status: number
  readonly reason: string
  /** Names and values as a flat list in their order, trailers too. */
  readonly raw: readonly string[]
  readonly headers: IncomingMessage['headers']
  /** The body after its content coding is removed. */
  readonly body: string
  /** False if the client left and cut the response off. */
  readonly complete: boolean
}

/**
 * `gone`: the client left, or the connection broke. `stuck`: no response came in a reasonable time.
 */
export type Reply = Received | 'gone' | 'stuck'

const PATIENCE_MS = 8_000

export function targetFor({ people }: Scenario, spec: RequestSpec): string {
  const rest = spec.carries.includes('url') ? people[spec.who]?.values.url : undefined
  return `/r${spec.route}/${rest ?? `p${spec.query}`}`
}

export function headersFor({ people }: Scenario, spec: RequestSpec): Record<string, string> {
  const headers: Record<string, string> = { ...spec.headers, host: 'localhost' }
  const cookies: string[] = []
  const values = people[spec.who]?.values ?? {}
  for (const channel of spec.carries) {
    const value = values[channel]
    if (value === undefined || IN_NO_FIELD.includes(channel)) continue
    if (channel === 'sid' || channel === 'tag') cookies.push(`${channel}=${value}`)
    else headers[HEADER_OF[channel] ?? channel] = value
  }
  if (cookies.length > 0) headers.cookie = cookies.join('; ')
  return headers
}

const IN_NO_FIELD = ['url', 'certificate', 'login', 'body']

/** A request as it is sent. */
interface Sending {
  readonly spec: RequestSpec
  readonly target: string
  readonly headers: Record<string, string>
  readonly body: string | undefined
}

/** Connections that may be shared: they have the same certificate and the same login. */
class Line {
  readonly #wire: Scenario['wire']
  readonly #port: number
  readonly #certificate: object
  readonly #agent: Agent
  #session: ClientHttp2Session | undefined
  /** The open connection has sent its login. */
  hasLoggedIn = false

  /** A login belongs to one connection, so `isSingle` allows only one. */
  constructor(wire: Scenario['wire'], port: number, name: string | undefined, isSingle: boolean) {
    this.#wire = wire
    this.#port = port
    this.#certificate = { ...CERTIFICATES[name ?? ''], rejectUnauthorized: false }
    const options = { keepAlive: true, ...(isSingle && { maxSockets: 1 }) }
    this.#agent = wire === 'http' ? new Agent(options) : new TlsAgent(options)
  }

  send(sending: Sending): Promise<Reply> {
    return this.#wire === 'http2'
      ? sendHttp2(this.#openSession(), sending)
      : sendHttp1(sending, {
          ...(this.#wire === 'https' && this.#certificate),
          agent: this.#agent,
          port: this.#port,
          isTls: this.#wire === 'https',
        })
  }

  #openSession(): ClientHttp2Session {
    if (this.#session?.closed === false) return this.#session
    const session = connect(`https://127.0.0.1:${this.#port}`, this.#certificate)
    session.on('error', () => {})
    session.once('close', () => {
      this.hasLoggedIn = false
    })
    this.#session = session
    return session
  }

  close(): void {
    this.#agent.destroy()
    this.#session?.destroy()
  }
}

/** All clients of one scenario, with their connections. */
export class Clients {
  readonly #scenario: Scenario
  readonly #lines = new Map<string, Line>()

  constructor(scenario: Scenario) {
    this.#scenario = scenario
  }

  async send(port: number, spec: RequestSpec): Promise<Reply> {
    const { people, layers } = this.#scenario
    const values = people[spec.who]?.values ?? {}
    const [certificate, login, body] = (['certificate', 'login', 'body'] as const).map((channel) =>
      spec.carries.includes(channel) ? values[channel] : undefined,
    )
    const line = this.#lineOf(port, certificate, login)
    const headers = headersFor(this.#scenario, spec)
    // The documentation requires that a cache sees the login.
    if (login !== undefined && !line.hasLoggedIn && cachesOf(layers, spec.route).length > 0) {
      headers.authorization = login
      line.hasLoggedIn = true
    }
    const target = targetFor(this.#scenario, spec)
    const reply = await line.send({ spec, target, headers, body })
    // The connection of this request is closed, too, unless HTTP/2 streams share it.
    if (reply === 'gone') line.hasLoggedIn = false
    return reply
  }

  #lineOf(port: number, certificate: string | undefined, login: string | undefined): Line {
    const key = JSON.stringify([port, certificate, login])
    const known = this.#lines.get(key)
    if (known !== undefined) return known
    const made = new Line(this.#scenario.wire, port, certificate, login !== undefined)
    this.#lines.set(key, made)
    return made
  }

  close(): void {
    for (const line of this.#lines.values()) line.close()
  }
}

/** Resolves with the result of `start`. It leaves when the person leaves, or after a timeout. */
function underWay(
  { spec }: Sending,
  start: (end: (reply: Reply) => void) => { leave(): void },
): Promise<Reply> {
  return new Promise((resolve) => {
    const patience = setTimeout(() => {
      resolve('stuck')
      leave()
    }, PATIENCE_MS)
    const { leave } = start((reply) => {
      clearTimeout(patience)
      clearTimeout(leaving)
      resolve(reply)
    })
    const leaving = spec.abortMs === undefined ? undefined : setTimeout(leave, spec.abortMs)
  })
}

interface Http1Options {
  readonly agent: Agent
  readonly port: number
  readonly isTls: boolean
}

function sendHttp1(sending: Sending, { isTls, ...options }: Http1Options): Promise<Reply> {
  const { spec, target, headers, body } = sending
  return underWay(sending, (end) => {
    const outgoing = (isTls ? tlsRequest : request)({
      ...options,
      host: '127.0.0.1',
      method: spec.method,
      path: target,
      headers: body === undefined ? headers : { ...headers, 'content-length': body.length },
      setHost: false,
    })
    outgoing.on('error', () => end('gone'))
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk) => chunks.push(chunk))
      // Bytes that arrived before the connection broke are checked too.
      incoming.on('close', () => end(received(incoming, Buffer.concat(chunks))))
    })
    outgoing.end(body)
    return { leave: () => outgoing.destroy() }
  })
}

function received(incoming: IncomingMessage, bytes: Buffer): Received {
  const { headers, complete } = incoming
  return {
    status: incoming.statusCode ?? 0,
    reason: incoming.statusMessage ?? '',
    raw: [...incoming.rawHeaders, ...incoming.rawTrailers],
    headers,
    body: complete ? decoded(headers, bytes) : bytes.toString(),
    complete,
  }
}

function sendHttp2(session: ClientHttp2Session, sending: Sending): Promise<Reply> {
  const { spec, target, headers, body } = sending
  const { host: authority, ...fields } = headers
  const names = { ':method': spec.method, ':path': target, ':authority': authority }
  return underWay(sending, (end) => {
    const stream = session.request({ ...names, ...fields }, { endStream: body === undefined })
    let head: IncomingMessage['headers'] | undefined
    let isComplete = false
    const chunks: Buffer[] = []
    stream.on('response', (got) => {
      head = got as IncomingMessage['headers']
    })
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('end', () => {
      isComplete = true
    })
    stream.on('error', () => {})
    stream.on('close', () => {
      if (head === undefined) return end('gone')
      const bytes = Buffer.concat(chunks)
      const complete = isComplete && stream.rstCode === constants.NGHTTP2_NO_ERROR
      end({
        status: Number(head[':status']),
        reason: '',
        raw: Object.entries(head).flatMap(([name, value]) =>
          [value ?? ''].flat().flatMap((each) => [name, String(each)]),
        ),
        headers: head,
        body: complete ? decoded(head, bytes) : bytes.toString(),
        complete,
      })
    })
    if (body !== undefined) stream.end(body)
    return { leave: () => stream.close(constants.NGHTTP2_CANCEL) }
  })
}

function decoded(headers: IncomingMessage['headers'], bytes: Buffer): string {
  if (headers['content-encoding'] !== 'gzip' || bytes.length === 0) return bytes.toString()
  try {
    return gunzipSync(bytes).toString()
  } catch {
    return `not gzip, though it says so: ${bytes.toString()}`
  }
}
