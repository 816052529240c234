// Decides when to give up a response that was closed before its end(). Giving up means that no end
// is expected any more.
//
// The event `close` means that the client no longer reads. It does not mean that the handler has
// stopped. A handler that waits for its database will still respond, and that response is worth
// storing. But `close` unpipes a source that is piped into the response, so this source will never
// end the response. A response is given up:
//   - at once, if the app closed it (by res.destroy, or by destroying the socket), or if a source
//     was piped into the response;
//   - after 30 s, if the client left before anything was written, or at once if the handler then
//     pipes a source that breaks;
//   - after 2 s without a write, if the client left in the middle of the body, or at once if the
//     handler calls end() without bytes in the same turn.
//
// `graceMs` replaces these times, except the last one, because the response of an idempotent
// handler is worth more. A socket that this process destroyed then counts as a client that left.
// server.setTimeout() and a broken next request destroy the socket while the handler still works.

import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { CapturedHead } from '@stampede/core/adapter'
import { isHttp2 } from './read-request.ts'

/** After the client has left, for a handler that has sent no head. */
export const ANSWER_WITHIN_MS = 30_000
/** After the client has left, from one write of the handler to the next. */
export const WRITE_WITHIN_MS = 2_000
/** Longest timeout. Node replaces a longer one by 1 ms. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/**
 * `closed` is called if the response was closed but the handler may still respond. `givenUp` is
 * called when no response is expected any more.
 */
export interface DepartureHooks {
  closed?(): void
  givenUp(piped: boolean): void
}

export interface DepartureOptions {
  /** Replaces all times. */
  readonly graceMs?: number | undefined
  /**
   * No byte is sent before the response ends. So if this process destroys the socket in the middle
   * of the body, no end follows.
   */
  readonly holdsAll?: boolean | undefined
  /** Called once, when the response was closed. */
  readonly onEnd?: (() => void) | undefined
}

/**
 * Watches whether the client of a response leaves. Create it before the handler runs. The handler
 * may listen for `close` too, and its listener must run after this one.
 */
export class Departure {
  static readonly hasLeft: typeof hasLeft = hasLeft
  /** Whether the response was closed before its end and not given up yet. */
  gone = false
  /** Whether the client left before the response ended. */
  left: boolean
  /** Whether the end of the response is no longer waited for. */
  isOver = false
  readonly #res: ServerResponse
  readonly #on: DepartureHooks
  readonly #graceMs: number | undefined
  readonly #holdsAll: boolean
  readonly #onEnd: (() => void) | undefined
  #byApp = false
  /** The client has just left in the middle of the body. */
  #mayBeCut = false
  #piped: Readable | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(res: ServerResponse, on: DepartureHooks, options: DepartureOptions) {
    const { graceMs, holdsAll = false, onEnd } = options
    this.#res = res
    this.#on = on
    this.#graceMs = graceMs
    this.#holdsAll = holdsAll
    this.#onEnd = onEnd
    this.left = hasLeft(res)
    res.on('pipe', this.#pipedFrom.bind(this))
    res.once('close', this.#closed.bind(this))
    // The client left before the handler began, so there will be no `close`.
    if (!this.left) return
    this.gone = true
    this.#wait(ANSWER_WITHIN_MS)
  }

  /** Call this when the app has called res.destroy(). No response will follow. */
  destroyedByApp(): void {
    this.#byApp = true
    // The `close` event was emitted before, and no second one will end the run.
    if (this.gone && this.#graceMs === undefined) this.#giveUp()
  }

  /**
   * Call this when the handler wrote something. If the client has left, the time to the next write
   * starts again.
   */
  wrote(): void {
    if (this.gone) this.#wait(WRITE_WITHIN_MS)
  }

  /**
   * Whether `end()` comes from a source that the `close` has stopped, such as a web stream of
   * Fastify: at once, without bytes. With a Content-Length, the number of bytes decides.
   */
  isCutBy(chunk: unknown, { headers }: CapturedHead): boolean {
    if (!this.#mayBeCut || typeof chunk === 'string' || ArrayBuffer.isView(chunk)) return false
    return headers.every(([name]) => name !== 'content-length')
  }

  /**
   * The listeners stay, because removing them costs more than keeping them until the response ends.
   */
  stop(): void {
    this.isOver = true
    this.gone = false
    clearTimeout(this.#timer)
  }

  #giveUp(): void {
    if (!this.isOver) this.#on.givenUp(this.#piped !== undefined)
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer)
    const forMs = Math.min(this.#graceMs ?? ms, MAX_TIMEOUT_MS)
    this.#timer = setTimeout(() => this.#giveUp(), forMs).unref()
  }

  #pipedFrom(source: Readable): void {
    if (this.isOver) return
    if (this.gone) {
      this.#pipedLate(source)
      return
    }
    this.#piped = source
  }

  /**
   * Watches a source that is piped after the client has left. File servers destroy such a source,
   * and then nothing ends the response.
   */
  #pipedLate(source: Readable): void {
    const broken = (): void => {
      if (!this.gone || source.readableEnded) return
      this.#piped = source
      this.#giveUp()
    }
    if (source.destroyed) broken()
    else source.once('close', broken)
  }

  /** A source may still wait for `drain`, which comes with setImmediate. */
  #expectCut(): void {
    this.#mayBeCut = true
    setImmediate(() =>
      setImmediate(() => {
        this.#mayBeCut = false
      }),
    )
  }

  #closed(): void {
    const res = this.#res
    this.#onEnd?.()
    this.left ||= !res.writableEnded
    if (this.isOver) return
    this.gone = true
    const isCut = res.writableEnded || (this.#holdsAll && res.headersSent)
    const mayAnswer = this.#graceMs !== undefined && !isCut
    const left = !this.#byApp && (mayAnswer || leftByClient(res))
    if (!left || this.#piped !== undefined) {
      this.#giveUp()
      return
    }
    if (res.headersSent) this.#expectCut()
    this.#wait(res.headersSent ? WRITE_WITHIN_MS : ANSWER_WITHIN_MS)
    this.#on.closed?.()
  }
}

/** Whether the client has left, so that writes go nowhere. */
export function hasLeft(res: ServerResponse): boolean {
  if (isHttp2(res) && Object(Reflect.get(res, 'stream')).destroyed === true) return true
  return res.destroyed || res.req.socket?.destroyed === true
}

/**
 * Tells after this turn whether the response stays whole. A handler may call destroy() right after
 * end().
 */
export function whenWhole(res: ServerResponse, tell: (isWhole: boolean) => void): void {
  let isWhole = false
  // Before other listeners, because they may close a finished response. `finish` is also emitted if
  // the handler destroyed the response.
  res.prependOnceListener('finish', () => {
    isWhole = !hasLeft(res)
  })
  queueMicrotask(() => tell(isWhole || !hasLeft(res)))
}

/**
 * Whether the client closed its socket. Such a socket has ended or failed. A socket that this
 * process destroyed has done neither.
 */
function leftByClient(res: ServerResponse): boolean {
  const { socket } = res
  // On HTTP/2, `res.socket` is null by now, and nothing else shows which side closed the stream.
  if (isHttp2(res)) return true
  return socket !== null && (socket.readableEnded || socket.errored !== null)
}

interface Carrier {
  readonly writable: boolean
  destroy(...args: unknown[]): unknown
}

const connections = new WeakMap<object, Connection>()

/**
 * A connection, or a stream of HTTP/2, with responses whose end is held. It delays calls of
 * destroy() that have no error. If a handler fails after its response, frameworks destroy the
 * connection, because the response looks sent. That would cut off the held response.
 *
 * There is one object for each connection, because a client may pipeline thousands of requests.
 * If each of their holds wrapped destroy(), the stack would overflow when it is called.
 */
export class Connection {
  #held = 0
  #late: Array<() => unknown> = []
  readonly #carrier: Carrier

  private constructor(carrier: Carrier) {
    this.#carrier = carrier
    const { destroy } = carrier
    const own: Carrier['destroy'] = (...args) => {
      const now = (): unknown => Reflect.apply(destroy, carrier, args)
      return this.delays(args, now) ? carrier : now()
    }
    // It stays after the holds. Deleting it would turn the socket into a dictionary.
    carrier.destroy = own
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
