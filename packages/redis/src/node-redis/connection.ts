// A connection by node-redis 5. Each attempt to connect is a client of its own, because a client of
// node-redis that reconnects keeps commands and subscriptions of the lost connection.

import { EventEmitter } from 'node:events'
import { afterReplies, retryDelayMs } from '../connection/budget.ts'
import type { Address, Connection, Corkable } from '../connection/connection.ts'
import { isReadOnly, NotSent } from '../connection/refusal.ts'

/** First bytes of a simple string, a bulk string and a verbatim string in RESP. */
const STRINGS = [0x2b, 0x24, 0x3d]
/** node-redis 5.0 ignores this option of a client, so each command has it. */
const AS_BUFFERS = { typeMapping: Object.fromEntries(STRINGS.map((type) => [type, Buffer])) }

/** The options of a client that have its address. */
export interface NodeRedisOptions {
  readonly url?: string
  readonly socket?: { readonly host?: string; readonly port?: number }
}

/** A node of a cluster, as node-redis describes it. */
export interface NodeRedisNode extends Address {
  readonly address: string
  readonly readonly: boolean
  client?: NodeRedisPlainClient
}

/** A client that this package opened. */
export interface NodeRedisPlainClient {
  connect(): Promise<unknown>
  sendCommand(args: ReadonlyArray<string | Buffer>, options: object): Promise<unknown>
  subscribe(
    channels: readonly string[],
    listener: (message: Buffer, channel: Buffer) => void,
    asBuffers: true,
  ): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  /** Throws if the client is closed. */
  destroy(): void
}

export interface NodeRedisAttempt {
  readonly client: NodeRedisPlainClient
  readonly connecting: Promise<unknown>
}

export interface NodeRedisConnectionOptions {
  /** Begins an attempt to connect. `address` is the one that `locate` found. */
  open(address?: Address): NodeRedisAttempt
  /** Finds the address before each attempt. Without it, `open` knows the address. */
  readonly locate?: () => Promise<Address>
  /** Rejects if this server is not the right one, and the connection must not be used. */
  readonly verify?: (client: NodeRedisPlainClient) => Promise<void>
  /** Time for an attempt, with the commands that open the connection. */
  readonly connectMs: number
  /** Time without any reply to pending commands after which the server counts as frozen. */
  readonly replyMs: number
  /** False: the connection emits `end` after a loss, and does not connect again. */
  readonly reconnects: boolean
}

/** Emits the events of an ioredis connection: `ready`, `close`, `end`, `error`, `messageBuffer`. */
export class NodeRedisConnection implements Connection {
  /** Stands for the turn (`turnOf`). node-redis itself writes the commands of a turn at once. */
  readonly stream: Corkable = { cork() {}, uncork() {} }
  readonly #events = new EventEmitter()
  readonly #options: NodeRedisConnectionOptions
  readonly #onMessage = (message: Buffer, channel: Buffer): void => {
    this.#events.emit('messageBuffer', channel, message)
  }
  #client: NodeRedisPlainClient | undefined
  #status: 'connecting' | 'ready' | 'end' = 'connecting'
  /** Whether the socket of `#client` is open. */
  #hasSocket = false
  #attempt = 0
  #isClosed = false
  /** Ends the current attempt, or begins the next one. */
  #timer: NodeJS.Timeout | undefined
  #watchdog: NodeJS.Timeout | undefined
  #pending = 0
  #replies = 0

  constructor(options: NodeRedisConnectionOptions) {
    this.#options = options
    this.#events.setMaxListeners(0)
    this.#connect()
  }

  get status(): string {
    return this.#status
  }

  on(event: string, listener: (...args: never[]) => void): void {
    this.#events.on(event, listener as (...args: unknown[]) => void)
  }

  callBuffer(command: string, ...args: Array<string | number | Buffer>): Promise<unknown> {
    const texts = args.map((arg) => (typeof arg === 'number' ? String(arg) : arg))
    return this.#watched((client) => client.sendCommand([command, ...texts], AS_BUFFERS))
  }

  subscribe(...channels: string[]): Promise<unknown> {
    return this.#watched((client) => client.subscribe(channels, this.#onMessage, true))
  }

  ping(): Promise<unknown> {
    return this.callBuffer('PING')
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.#isClosed = true
    this.#leave()
  }

  #connect(): void {
    const { locate, connectMs } = this.#options
    const error = new Error(`no connection within ${connectMs} ms`)
    const timer = setTimeout(() => this.#lose(error), connectMs)
    this.#timer = timer
    if (locate === undefined) {
      this.#open()
      return
    }
    // Each attempt has a timer of its own, and `#leave` drops it.
    const ifCurrent = <T>(work: (value: T) => void) => {
      return (value: T) => {
        if (this.#timer === timer) work(value)
      }
    }
    locate().then(
      ifCurrent((address) => this.#open(address)),
      ifCurrent((reason: Error) => this.#lose(reason)),
    )
  }

  #open(address?: Address): void {
    const { verify } = this.#options
    const attempt = this.#begin(address)
    if (attempt === undefined) return
    const { client, connecting } = attempt
    this.#client = client
    this.#hasSocket = false
    const ofThis = (work: () => void) => () => {
      if (this.#client === client) work()
    }
    const lose = (error: Error) => ofThis(() => this.#lose(error))()
    client.on('connect', () => {
      // The attempt was given up before its socket was open. Earlier, node-redis cannot end it.
      if (this.#client !== client) destroy(client)
      else this.#hasSocket = true
    })
    const onReady = ofThis(() => this.#becomeReady())
    client.on('ready', () => {
      if (verify === undefined) onReady()
      else verify(client).then(onReady, lose)
    })
    client.on('error', lose)
    // node-redis emits most errors of an attempt. The others only reject the promise.
    connecting.catch(lose)
  }

  /** Undefined if `open` throws, as the user's `nodeAddressMap` may. */
  #begin(address?: Address): NodeRedisAttempt | undefined {
    try {
      return this.#options.open(address)
    } catch (error) {
      const timer = this.#timer
      // The constructor may be the caller. Its caller adds the listeners in this turn.
      setImmediate(() => {
        if (this.#timer === timer) this.#lose(error as Error)
      })
      return undefined
    }
  }

  #becomeReady(): void {
    clearTimeout(this.#timer)
    this.#attempt = 0
    this.#status = 'ready'
    this.#events.emit('ready')
  }

  #lose(error: Error): void {
    this.#events.emit('error', error)
    this.#leave()
  }

  /** Does not wait for the socket to close: a frozen server may take long. */
  #leave(): void {
    const client = this.#client
    const wasLast = this.#status === 'end'
    this.#client = undefined
    this.#pending = 0
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { reconnects } = this.#options
    const isLast = this.#isClosed || !reconnects
    this.#status = isLast ? 'end' : 'connecting'
    if (isLast) clearTimeout(this.#watchdog)
    else this.#connectLater()
    if (client !== undefined) {
      if (this.#hasSocket) destroy(client)
      this.#events.emit('close')
    }
    if (isLast && !wasLast) this.#events.emit('end')
  }

  #connectLater(): void {
    this.#attempt += 1
    this.#timer = setTimeout(() => this.#connect(), retryDelayMs(this.#attempt))
  }

  #watched(command: (client: NodeRedisPlainClient) => Promise<unknown>): Promise<unknown> {
    const client = this.#client
    if (client === undefined || this.#status !== 'ready') return Promise.reject(new NotSent())
    this.#pending += 1
    if (this.#pending === 1) this.#watch()
    const onReply = () => {
      this.#replies += 1
      if (this.#client !== client) return
      this.#pending -= 1
      this.#watchdog?.refresh()
    }
    return command(client).then(
      (reply) => {
        onReply()
        return reply
      },
      (error: Error) => {
        onReply()
        if (!isReply(error)) throw error
        error.name = 'ReplyError'
        // READONLY after a fail-over means that the connection is to the old master.
        if (isReadOnly(error) && this.#client === client) this.disconnect(true)
        throw error
      },
    )
  }

  /** Watches for a server that sends no reply at all. The timer runs on while none is pending. */
  #watch(): void {
    const { replyMs } = this.#options
    this.#watchdog ??= setTimeout(() => this.#checkReplies(replyMs), replyMs).unref()
    this.#watchdog.refresh()
  }

  #checkReplies(replyMs: number): void {
    const [client, replies] = [this.#client, this.#replies]
    if (this.#pending === 0) return
    afterReplies(() => {
      if (this.#client !== client || this.#replies !== replies) return
      this.#lose(new Error(`no reply within ${replyMs} ms`))
    })
  }
}

function destroy(client: NodeRedisPlainClient): void {
  try {
    client.destroy()
  } catch {
    // node-redis has closed the client itself.
  }
}

/** Whether Redis sent this error. Its errors begin with a code in capitals. */
function isReply({ message }: Error): boolean {
  return /^[A-Z][A-Z0-9_]+ /.test(message)
}
