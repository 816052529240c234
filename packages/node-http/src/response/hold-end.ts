// Delays the end of a response until other work is done. Meanwhile the response already looks
// ended: a handler that responds a second time must get the error that Node would throw. Otherwise
// the headers of the second response would be sent with the first body, and the client would wait
// for bytes that never come.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import type { OriginEnd } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'
import { breakOff } from './write-response.ts'

export interface EndObserver {
  /**
   * Called when the app has ended a response whose whole body was captured. If it returns a
   * promise, the end is sent when the promise settles. The capture then ends with `end`, even if
   * the client leaves.
   */
  beforeEnd?(end: OriginEnd): void | Promise<void>
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
    let until: void | Promise<void>
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
    const look = '_headerSent' in res ? new EndedState(res as NodesState) : new EndedLook(res)
    const connection = Connection.hold(res)
    this.#connection = connection
    const go = (): void => {
      look.restore()
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

type AnyMethod = (...args: unknown[]) => unknown

/** Names that Node has for the state of a response, without documenting all of them. */
interface NodesState extends ServerResponse {
  _header: string | null
  _headerSent: boolean
  finished: boolean
  outputSize: number
}

/**
 * Makes a response of HTTP/1 look ended, until restore(). It changes the values from which Node
 * derives all others: with properties of its own, V8 would store the response as a dictionary.
 */
class EndedState {
  readonly #res: NodesState
  readonly #hasNoHead: boolean
  readonly #size: 0 | 1

  constructor(res: NodesState) {
    this.#res = res
    this.#hasNoHead = !res._header
    if (this.#hasNoHead) {
      res._header = MADE_UP
      // Otherwise flushHeaders() of Node would send it. A head of the app must stay unsent here,
      // because Node 26 sends the pieces of the body after this turn, and the head before them.
      res._headerSent = true
    }
    res.finished = true
    // Node up to 22 takes a response without bytes in its queue for finished.
    this.#size = res.writableFinished ? 1 : 0
    res.outputSize += this.#size
  }

  restore(): void {
    const res = this.#res
    if (this.#hasNoHead) {
      res._header = null
      res._headerSent = false
    }
    res.finished = false
    if (res.outputSize > 0) res.outputSize -= this.#size
  }
}

/** A head that is never sent. */
const MADE_UP = 'HTTP/1.1 200 OK\r\n\r\n'

const HEAD_METHODS = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader']

/** Properties of a response in Node after end() and before the flush. */
const ENDED: Readonly<Record<string, boolean>> = {
  headersSent: true,
  writableEnded: true,
  finished: true,
  writableFinished: false,
}

/**
 * Property descriptors of a response of HTTP/2 that looks ended. All responses share them, because
 * creating descriptors is expensive.
 */
const ENDED_PROPERTIES: Readonly<Record<string, PropertyDescriptor>> = Object.fromEntries([
  ...Object.entries(ENDED).map(([name, value]) => [name, property({ get: () => value, set() {} })]),
  ...HEAD_METHODS.map((name) => [name, property({ value: whileEnded(name), writable: true })]),
])
const ENDED_NAMES: readonly string[] = Object.keys(ENDED_PROPERTIES)

function property(as: PropertyDescriptor): PropertyDescriptor {
  return { ...as, configurable: true, enumerable: true }
}

const looks = new WeakMap<object, EndedLook>()

/**
 * Returns a method that throws while the response looks ended. A layer may keep this method and
 * call it later. Then it does what the original method does.
 */
function whileEnded(name: string): AnyMethod {
  return function (this: ServerResponse, ...args: unknown[]): unknown {
    const method = looks.get(this)?.originalIfOver(name)
    if (typeof method === 'function') return Reflect.apply(method, this, args)
    throw headersSentError(this)
  }
}

/** The error that Node throws for a head after the end. */
export function headersSentError(res: ServerResponse): Error {
  const code = isHttp2(res) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
  return Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
}

/** Makes a response of HTTP/2 look ended, until restore(). */
class EndedLook {
  #isOver = false
  readonly #res: ServerResponse
  /** The response's own properties from before, in the order of `ENDED_NAMES`. */
  readonly #before: Array<PropertyDescriptor | undefined> = []

  constructor(res: ServerResponse) {
    this.#res = res
    looks.set(res, this)
    for (const name of ENDED_NAMES) this.#before.push(Object.getOwnPropertyDescriptor(res, name))
    Object.defineProperties(res, ENDED_PROPERTIES)
  }

  restore(): void {
    this.#isOver = true
    for (let i = 0; i < ENDED_NAMES.length; i++) {
      const name = ENDED_NAMES[i] as string
      putBack(this.#res, name, ENDED_PROPERTIES[name], this.#before[i])
    }
  }

  /** The method that the response had before it looked ended. Undefined until restore(). */
  originalIfOver(name: string): unknown {
    if (!this.#isOver) return undefined
    const own = this.#before[ENDED_NAMES.indexOf(name)]
    if (own === undefined) return Reflect.get(Object.getPrototypeOf(this.#res), name)
    return own.get === undefined ? own.value : own.get.call(this.#res)
  }
}

/** Puts a replaced property back, unless other code has replaced it again. */
function putBack(
  target: object,
  name: string,
  by: PropertyDescriptor | undefined,
  before: PropertyDescriptor | undefined,
): void {
  const now = Object.getOwnPropertyDescriptor(target, name)
  if (now?.value !== by?.value || now?.get !== by?.get) return
  if (before === undefined) Reflect.deleteProperty(target, name)
  else Object.defineProperty(target, name, before)
}

interface Carrier {
  destroy: AnyMethod
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
