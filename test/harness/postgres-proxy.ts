// A proxy in front of PostgreSQL that knows the messages of its protocol. It counts requests and
// round trips, and holds, drops or cuts the request or the reply that a test chooses.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** All that a client sends until it waits: a simple query, or messages up to a Sync. */
export interface ProxiedRequest {
  /** 1 for the first since the last `intercept`. */
  readonly number: number
  /** Its SQL. Statements of several messages are joined by a semicolon. */
  readonly text: string
  /** The process of the server that serves this connection. */
  readonly backend: number
  /** The request before it had no reply yet, so that both share a round trip. */
  readonly pipelined: boolean
}

/**
 * `drop`: it is lost, and both connections stay open. `cut`: both end. `part`: the client's
 * connection ends, and the server does not notice, as if the network had lost the end.
 */
export type Fate = 'forward' | 'drop' | 'cut' | 'part'

/** Both may wait as long as they like: all later messages of the connection wait, too. */
export interface Interceptor {
  /** Called before the server gets any part of the request. */
  request?(request: ProxiedRequest): Fate | Promise<Fate>
  /** Called with the whole reply here, before the client gets any part of it. */
  reply?(request: ProxiedRequest): Fate | Promise<Fate>
}

export interface PostgresProxy extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** Replaces the interceptor, also for open connections. Requests are counted from 1. */
  intercept(interceptor?: Interceptor): void
  /** All requests since the last `intercept`, without those that open or end a connection. */
  requests(): readonly ProxiedRequest[]
  roundTrips(): number
  /** Open connections of clients. */
  connections(): number
  /** New connections go to another server on this machine. */
  moveTo(port: number): void
  /** Cuts all connections. New ones are accepted. */
  cut(): void
  stop(): Promise<void>
}

/** A proxy on a free port of 127.0.0.1. */
export async function startPostgresProxy(targetPort: number): Promise<PostgresProxy> {
  const state: State = { interceptor: {}, requests: [] }
  const wires = new Set<Wire>()
  let target = targetPort
  const server = createServer((client) => {
    const wire = new Wire(client, connect(target, '127.0.0.1'), state)
    wires.add(wire)
    void wire.run().finally(() => wires.delete(wire))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const cut = () => {
    for (const wire of wires) wire.cut()
  }
  const stop = async () => {
    server.close()
    cut()
  }
  return {
    port,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    intercept(interceptor = {}) {
      state.interceptor = interceptor
      state.requests = []
    },
    requests: () => state.requests,
    roundTrips: () => state.requests.filter(({ pipelined }) => !pipelined).length,
    connections: () => [...wires].filter((wire) => wire.isOpen()).length,
    moveTo(other) {
      target = other
    },
    cut,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

interface State {
  interceptor: Interceptor
  requests: ProxiedRequest[]
}

interface Message {
  /** Empty for a message of the start, which has no type. */
  readonly type: string
  /** The whole message. */
  readonly bytes: Buffer
}

/** Parse, Bind, Describe, Execute and Close wait for their Sync. */
const PARTS: ReadonlySet<string> = new Set('PBDEC')
/** Query and Sync: the client now waits for a reply. */
const ENDS: ReadonlySet<string> = new Set('QS')

/** Cuts a stream of bytes into messages. */
class Framer {
  #rest: Buffer = Buffer.alloc(0)
  /** Only the first message of a client has no type. */
  #hasTypes: boolean

  constructor(hasTypes: boolean) {
    this.#hasTypes = hasTypes
  }

  *messages(chunk: Buffer): Generator<Message> {
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      const at = this.#hasTypes ? 1 : 0
      if (this.#rest.length < at + 4) return
      const length = at + this.#rest.readUInt32BE(at)
      if (this.#rest.length < length) return
      const bytes = this.#rest.subarray(0, length)
      const type = this.#hasTypes ? String.fromCharCode(bytes[0] ?? 0) : ''
      this.#rest = this.#rest.subarray(length)
      this.#hasTypes = true
      yield { type, bytes }
    }
  }
}

/** The SQL of a request: of its simple query, or of the statements that it binds. */
class Statements {
  readonly #named = new Map<string, string>()
  #texts: string[] = []

  add({ type, bytes }: Message): void {
    if (type === 'Q') this.#texts.push(textAt(bytes, 5))
    if (type === 'P') {
      const name = textAt(bytes, 5)
      this.#named.set(name, textAt(bytes, 6 + Buffer.byteLength(name)))
    }
    if (type === 'B') {
      const portal = textAt(bytes, 5)
      const name = textAt(bytes, 6 + Buffer.byteLength(portal))
      this.#texts.push(this.#named.get(name) ?? '')
    }
  }

  take(): string {
    const text = this.#texts.join('; ')
    this.#texts = []
    return text
  }
}

function textAt(bytes: Buffer, start: number): string {
  return bytes.toString('utf8', start, bytes.indexOf(0, start))
}

/** A connection of a client, with one of its own to the server. */
class Wire {
  readonly #client: Socket
  readonly #server: Socket
  readonly #state: State
  readonly #statements = new Statements()
  /** Requests that the server has, and whose replies are not complete. */
  readonly #sent: ProxiedRequest[] = []
  #isStarted = false
  #isParted = false
  #backend = 0

  constructor(client: Socket, server: Socket, state: State) {
    this.#client = client
    this.#server = server
    this.#state = state
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      // The loops below end with the error.
      socket.on('error', () => {})
    }
  }

  async run(): Promise<void> {
    const fromServer = this.#fromServer().then(() => this.#client.end())
    await this.#fromClient()
    if (!this.#isParted) this.#server.end()
    await fromServer
  }

  isOpen(): boolean {
    return !this.#client.destroyed
  }

  cut(): void {
    this.#client.resetAndDestroy()
    this.#server.resetAndDestroy()
  }

  async #fromClient(): Promise<void> {
    const framer = new Framer(false)
    let request: Buffer[] = []
    try {
      for await (const chunk of this.#client) {
        for (const message of framer.messages(chunk)) {
          this.#statements.add(message)
          request.push(message.bytes)
          if (PARTS.has(message.type)) continue
          const bytes = Buffer.concat(request)
          request = []
          if (ENDS.has(message.type)) await this.#send(bytes)
          else this.#server.write(bytes)
        }
      }
    } catch {
      // The client has gone, or was cut.
    }
  }

  async #send(bytes: Buffer): Promise<void> {
    const { requests, interceptor } = this.#state
    const request: ProxiedRequest = {
      number: requests.length + 1,
      text: this.#statements.take(),
      backend: this.#backend,
      pipelined: this.#sent.length > 0,
    }
    requests.push(request)
    const fate = (await interceptor.request?.(request)) ?? 'forward'
    if (fate !== 'forward') return this.#end(fate)
    this.#sent.push(request)
    this.#server.write(bytes)
  }

  async #fromServer(): Promise<void> {
    const framer = new Framer(true)
    let reply: Buffer[] = []
    try {
      for await (const chunk of this.#server) {
        for (const { type, bytes } of framer.messages(chunk)) {
          if (type === 'K') this.#backend = bytes.readUInt32BE(5)
          reply.push(bytes)
          const isComplete = type === 'Z' && this.#isStarted
          if (type === 'Z') this.#isStarted = true
          // Notices and messages of the start belong to no request.
          if (!isComplete && this.#sent.length > 0) continue
          const whole = Buffer.concat(reply)
          reply = []
          if (isComplete) await this.#answer(whole)
          else this.#client.write(whole)
        }
      }
    } catch {
      // The server has gone, or was cut.
    }
    // An error that ends the connection comes without a Z.
    if (reply.length > 0 && !this.#client.destroyed) this.#client.write(Buffer.concat(reply))
  }

  async #answer(bytes: Buffer): Promise<void> {
    const request = this.#sent.shift()
    const { interceptor } = this.#state
    const fate = request ? ((await interceptor.reply?.(request)) ?? 'forward') : 'forward'
    if (fate !== 'forward') return this.#end(fate)
    if (!this.#client.destroyed) this.#client.write(bytes)
  }

  #end(fate: Fate): void {
    if (fate === 'cut') this.cut()
    if (fate !== 'part') return
    this.#isParted = true
    this.#client.resetAndDestroy()
  }
}
