// Delays the end of a response, or the whole response, until other work is done. Meanwhile the
// response already looks ended: a handler that responds a second time must get the error that Node
// would throw. Otherwise the headers of the second response would be sent with the first body, and
// the client would wait for bytes that never come.
//
// A whole response is delayed as the calls that write it. They are made later, in their order, so
// that the client gets what it would get without the delay.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import type { OriginEnd, Reply } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'
import { notCaptured } from './body.ts'
import { discardWrite } from './original-methods.ts'
import { breakOff, isSendable } from './write-response.ts'

export interface EndObserver {
  /**
   * Whether head and body wait for `beforeEnd` too. Then `beforeEnd` gets each end by the app, and
   * the moment at which the body becomes too large.
   */
  readonly holdsAll?: boolean
  /**
   * Called when the app has ended a response whose whole body was captured. If it returns a
   * promise, the end is sent when the promise settles. The capture then ends with `end`, even if
   * the client leaves. With `holdsAll`, a reply replaces the response.
   */
  beforeEnd?(end: OriginEnd): void | Promise<void> | Promise<Reply | undefined>
}

/** A call of the app that writes a part of the response. */
export type Call = readonly [method: 'writeHead' | 'write' | 'end' | 'flushHeaders', args: Args]
type Args = readonly unknown[]
/** Makes the calls that were delayed, or sends a reply in place of the response. */
type Send = (calls: readonly Call[], reply: Reply | undefined) => void

const NONE: readonly never[] = []
const TOO_LARGE = notCaptured('too-large')
/** A reply that cannot be sent, because nothing is known about the outcome. */
const NO_OUTCOME: Reply = { status: 0, headers: [], body: undefined }

/** Delays the end of one response, or all of it. */
export class EndHold {
  /** Whether the app has ended the response and the end was not sent yet. */
  active = false
  /** Whether calls that write the response are kept. */
  keeps: boolean
  /** Whether the body has become too large, and the app still writes it. */
  isFull = false
  /** Makes a kept head look unsent again. Undefined: no head is kept. */
  unsend: (() => void) | undefined
  readonly #kept: Call[] = []
  readonly #res: ServerResponse
  readonly #observer: EndObserver
  #connection: Connection | undefined

  constructor(res: ServerResponse, observer: EndObserver) {
    this.#res = res
    this.#observer = observer
    this.keeps = observer.holdsAll === true
  }

  /** Keeps a call. From then on, the head looks sent. */
  keep(method: Call[0], args: Args): unknown {
    this.unsend ??= lookSent(this.#res as NodesState, false)
    // The app may wait for the callback of a write before it goes on.
    const isWrite = method === 'write'
    const own = isWrite ? args.filter((arg) => typeof arg !== 'function') : args
    this.#kept.push([method, ownArgs(own)])
    return isWrite ? discardWrite(args, !this.isFull) : this.#res
  }

  /** The body is too large to be kept. Its end, or a reply in its place, need not wait for it. */
  overflow(send: Send): void {
    if (this.isFull) return
    this.isFull = true
    this.end(TOO_LARGE, undefined, send)
  }

  /**
   * Whether this call may be delayed. False if Node would reject the arguments, because the error
   * must be thrown now, while the handler can catch it.
   */
  takes([chunk]: Args, [status]: Args, method = 'end'): boolean {
    const isBody = typeof chunk === 'string' || chunk instanceof Uint8Array
    const needsBody = method === 'write' || (chunk && typeof chunk !== 'function')
    if (needsBody && !isBody) return false
    const res = this.#res
    if (res.headersSent) return true
    // Node cuts off a fraction.
    const code = Number(status) | 0
    if (code < 100 || code > 999) return false
    if (isHttp2(res) || !res.statusMessage) return true
    try {
      validateHeaderValue('reason', res.statusMessage)
      return true
    } catch {
      return false
    }
  }

  /**
   * Sends the end with `send`. The end of a complete response is delayed until the promise of
   * `beforeEnd` settles. Without `args`, the app has not ended the response yet.
   */
  end(end: OriginEnd, args: Args | undefined, send: Send): void {
    if (end.type !== 'complete' && !this.keeps) {
      send(args ? [['end', args]] : NONE, undefined)
      return
    }
    this.active = args !== undefined
    let until: void | Promise<void> | Promise<Reply | undefined>
    try {
      until = this.#observer.beforeEnd?.(end)
    } catch (error) {
      until = Promise.reject<undefined>(error)
    }
    if (until === undefined) {
      this.#release(end, args, send)
      return
    }
    const own = args && ownArgs(args)
    const res = this.#res
    const { statusCode } = res
    const restore = this.active ? lookSent(res as NodesState, true) : undefined
    const connection = Connection.hold(res)
    this.#connection = connection
    const go = (reply?: unknown): void => {
      restore?.()
      // A second response may have assigned another status meanwhile.
      if (!res.headersSent) res.statusCode = statusCode
      this.#release(end, own, send, this.keeps ? (reply as Reply | undefined) : undefined)
      connection?.release(res)
    }
    until.then(go, () => go(NO_OUTCOME))
  }

  /** Whether this call of destroy() on the response was delayed. `now` calls it. */
  delays(args: readonly unknown[], now: () => unknown): boolean {
    return this.active && this.#connection?.delays(args, now) === true
  }

  /**
   * Calls `send`. If an outer layer throws in it, the error becomes a warning, because the handler
   * has returned by now and cannot catch it.
   */
  #release(end: OriginEnd, args: Args | undefined, send: Send, reply?: Reply): void {
    const isCut = this.keeps && end.type === 'not-captured' && end.reason === 'incomplete'
    const isBroken = isCut || (reply !== undefined && !isSendable(reply))
    this.active = false
    this.keeps = false
    if (isBroken) breakOff(this.#res)
    this.unsend?.()
    this.unsend = undefined
    const calls: readonly Call[] = args ? [...this.#kept, ['end', args]] : this.#kept
    try {
      send(isBroken ? NONE : calls, reply)
      if (this.isFull) this.#res.emit('drain')
      this.isFull = false
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
      breakOff(this.#res)
    }
  }
}

/** A copy of the chunk, because the app may reuse its buffer as soon as the call has returned. */
function ownArgs(args: Args): Args {
  const [chunk] = args
  return chunk instanceof Uint8Array ? args.with(0, Buffer.from(chunk)) : args
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
 * Makes the head of a response look sent, or all of it. Returns a function that ends this. It
 * changes the values from which Node derives all others: with properties of its own, V8 would store
 * the response as a dictionary.
 */
function lookSent(res: NodesState, isEnded: boolean): () => void {
  if (isHttp2(res)) return lookSentOnHttp2(res, isEnded)
  const hasNoHead = !res._header
  if (hasNoHead) {
    res._header = MADE_UP
    // Otherwise flushHeaders() of Node would send it. A head of the app must stay unsent here,
    // because Node 26 sends the pieces of the body after this turn, and the head before them.
    res._headerSent = true
  }
  res.finished = isEnded
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
function lookSentOnHttp2(res: ServerResponse, isEnded: boolean): () => void {
  const restores = [show(Reflect.get(res, 'stream'), 'headersSent')]
  if (isEnded) restores.push(show(res, 'writableEnded'), show(res, 'finished'))
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
  readonly writable: boolean
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
  readonly #carrier: Carrier

  private constructor(carrier: Carrier) {
    this.#carrier = carrier
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

  /**
   * Bytes that the socket has not taken yet would be lost, so `res` is sent before. After the
   * client has left, the socket takes none, and nothing else closes it.
   */
  release(res: ServerResponse): void {
    this.#held -= 1
    if (this.#held > 0 || this.#late.length === 0) return
    const late = this.#late
    this.#late = []
    const destroyAll = (): void => {
      for (const destroy of late) destroy()
    }
    if (res.destroyed || res.writableFinished || !this.#carrier.writable) destroyAll()
    else res.once('close', destroyAll)
  }

  delays([error]: readonly unknown[], now: () => unknown): boolean {
    if (this.#held === 0 || (error !== undefined && error !== null)) return false
    this.#late.push(now)
    return true
  }
}
