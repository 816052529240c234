// Delays the end of a response until other work is done. Meanwhile the response already looks
// ended: a handler that responds a second time must get the error that Node would throw. Otherwise
// the headers of the second response would be sent with the first body, and the client would wait
// for bytes that never come.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import type { OriginEnd, Reply } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'
import { breakOff } from './write-response.ts'

export interface EndObserver {
  /**
   * Called when the app has ended a response whose whole body was captured. If it returns a
   * promise, the end is sent when the promise settles. The capture then ends with `end`, even if
   * the client leaves.
   */
  beforeEnd?(end: OriginEnd): void | Promise<Reply | void>
}

/** Delays the end of one response. */
export class EndHold {
  /** Whether the app has ended the response and the end was not sent yet. */
  active = false
  readonly #res: ServerResponse
  readonly #observer: EndObserver
  #connection: Connection | undefined

  constructor(res: ServerResponse, observer: EndObserver) {
    this.#res = res
    this.#observer = observer
  }

  /**
   * Whether this end may be delayed. False if Node would reject the arguments, because the error
   * must be thrown now, while the handler can catch it.
   */
  takes([chunk]: readonly unknown[], [status]: readonly unknown[]): boolean {
    const isBody = typeof chunk === 'string' || chunk instanceof Uint8Array
    if (chunk && !isBody && typeof chunk !== 'function') return false
    return this.#res.headersSent || isStatusLine(Number(status), this.#res)
  }

  /**
   * Sends the end with `send`. The end of a complete response is delayed until the promise of
   * `beforeEnd` settles.
   */
  end(end: OriginEnd, args: readonly unknown[], send: (args: readonly unknown[]) => void): void {
    if (end.type !== 'complete') {
      send(args)
      return
    }
    this.active = true
    let until: void | Promise<Reply | void>
    try {
      until = this.#observer.beforeEnd?.(end)
    } catch (error) {
      until = Promise.reject(error)
    }
    if (until === undefined) {
      this.#release(args, send)
      return
    }
    // A copy of the chunk, because the app may reuse its buffer as soon as end() has returned.
    const [chunk] = args
    const own = chunk instanceof Uint8Array ? args.with(0, Buffer.from(chunk)) : args
    const res = this.#res
    const { statusCode } = res
    const restore = lookEnded(res as NodesState)
    const connection = Connection.hold(res)
    this.#connection = connection
    const go = (): void => {
      restore()
      // A second response may have assigned another status meanwhile.
      if (!res.headersSent) res.statusCode = statusCode
      this.#release(own, send)
      connection?.release()
    }
    until.then(go, go)
  }

  /** Whether this call of destroy() on the response was delayed. `now` calls it. */
  delays(args: readonly unknown[], now: () => unknown): boolean {
    return this.active && this.#connection?.delays(args, now) === true
  }

  /**
   * Calls `send`. If an outer layer throws in it, the error becomes a warning, because the handler
   * has returned by now and cannot catch it.
   */
  #release(args: readonly unknown[], send: (args: readonly unknown[]) => void): void {
    this.active = false
    try {
      send(args)
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
      breakOff(this.#res)
    }
  }
}

function isStatusLine(status: number, res: ServerResponse): boolean {
  if (!Number.isInteger(status) || status < 100 || status > 999) return false
  if (isHttp2(res) || !res.statusMessage) return true
  try {
    validateHeaderValue('reason', res.statusMessage)
    return true
  } catch {
    return false
  }
}

/** Names that Node has for the state of a response, without documenting all of them. */
interface NodesState extends ServerResponse {
  _header: string | null
  _headerSent: boolean
  finished: boolean
  outputSize: number
}

/** A head that is never sent. */
const MADE_UP = 'HTTP/1.1 200 OK\r\n\r\n'

/**
 * Makes a response look ended. Returns a function that ends this. It changes the values from which
 * Node derives all others: with properties of its own, V8 would store the response as a dictionary.
 */
function lookEnded(res: NodesState): () => void {
  if (isHttp2(res)) return lookEndedOnHttp2(res)
  const hasNoHead = !res._header
  if (hasNoHead) {
    res._header = MADE_UP
    // Otherwise flushHeaders() of Node would send it. A head of the app must stay unsent here,
    // because Node 26 sends the pieces of the body after this turn, and the head before them.
    res._headerSent = true
  }
  res.finished = true
  // Node up to 22 takes a response without bytes in its queue for finished.
  const size = res.writableFinished ? 1 : 0
  res.outputSize += size
  return () => {
    if (hasNoHead) {
      res._header = null
      res._headerSent = false
    }
    res.finished = false
    if (res.outputSize > 0) res.outputSize -= size
  }
}

/** On HTTP/2, the stream tells whether a head was sent. Then the response refuses all fields. */
function lookEndedOnHttp2(res: ServerResponse): () => void {
  const stream: object = Reflect.get(res, 'stream')
  const restores = [show(stream, 'headersSent'), show(res, 'writableEnded'), show(res, 'finished')]
  return () => {
    for (const restore of restores) restore()
  }
}

/** Makes a property true. Returns a function that restores the present one, if there is any. */
function show(on: object, name: string): () => boolean {
  const before = Reflect.getOwnPropertyDescriptor(on, name)
  // Unlike that of Object, it does not throw if the layer has made the property unchangeable.
  Reflect.defineProperty(on, name, { value: true, writable: true, configurable: true })
  return () =>
    before ? Reflect.defineProperty(on, name, before) : Reflect.deleteProperty(on, name)
}

/** The error that Node throws for a head after the end. */
export function headersSentError(res: ServerResponse): Error {
  const code = isHttp2(res) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
  return Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
}

interface Carrier {
  destroy(...args: unknown[]): unknown
}

const connections = new WeakMap<object, Connection>()

/**
 * A connection, or a stream of HTTP/2, that has held responses. It delays calls of destroy() that
 * have no error. If a handler fails after its response, frameworks destroy the connection, because
 * the response looks sent. That would cut off the held response.
 *
 * There is one object for each connection, because a client may pipeline thousands of requests.
 * If each of their holds wrapped destroy(), the stack would overflow when it is called.
 */
class Connection {
  #held = 0
  #late: Array<() => unknown> = []

  private constructor(carrier: Carrier) {
    const { destroy } = carrier
    // It stays after the holds. Deleting it would turn the socket into a dictionary.
    carrier.destroy = (...args) => {
      const now = (): unknown => Reflect.apply(destroy, carrier, args)
      return this.delays(args, now) ? carrier : now()
    }
  }

  /**
   * Delays calls of destroy() until release(). Undefined if such a call already waits. Otherwise a
   * client that goes on to send requests could put it off for ever.
   */
  static hold(res: ServerResponse): Connection | undefined {
    const carrier: Partial<Carrier> | null = Reflect.get(res, 'stream') ?? res.req?.socket
    if (typeof carrier?.destroy !== 'function') return undefined
    const connection = connections.get(carrier) ?? new Connection(carrier as Carrier)
    connections.set(carrier, connection)
    if (connection.#late.length > 0) return undefined
    connection.#held += 1
    return connection
  }

  release(): void {
    this.#held -= 1
    if (this.#held > 0) return
    const late = this.#late
    this.#late = []
    for (const destroy of late) destroy()
  }

  delays([error]: readonly unknown[], now: () => unknown): boolean {
    if (this.#held === 0 || (error !== undefined && error !== null)) return false
    this.#late.push(now)
    return true
  }
}
