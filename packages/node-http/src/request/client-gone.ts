// When may a response that was closed before its end() be given up?
//
// `close` says that nobody reads any more, not that the handler has stopped. A handler that was waiting
// for its database will still answer, and that answer is worth keeping; a source piped into the response
// was unpiped by `close` and will never end it. So:
//   - closed by the app (res.destroy, or its socket destroyed from this side), or while a source was
//     piped into it: given up at once;
//   - the client left before anything was written: the handler has 30 s to answer. If it pipes a source then, and that breaks,
//     the response is given up at once;
//   - the client left in the middle of the body: given up after 2 s in which nothing was written;
//   - others are fed from the same answer: what was piped is read on for them, and they wait 30 s for the next byte.
// With a patience of its own (an idempotent handler's answer is worth more) that takes the place of both times, and a socket
// destroyed from this side counts as left: server.setTimeout() and a broken next request do that to handlers at work.

import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { isHttp2 } from './http2.ts'

export const ANSWER_WITHIN_MS = 30_000
export const WRITE_WITHIN_MS = 2_000
/** Node takes longer ones for 1 ms. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** An answer that others are fed from too. */
export interface SharedSource {
  /** Somebody reads it: the handler is given longer. */
  watched(): boolean
  piped(source: Readable): void
  /** The client left in the middle of this source. True if it is read on. */
  orphaned(source: Readable): boolean
}

/** `closed` is called on a close from which the handler may go on, `givenUp` when it will not. */
export interface DepartureHooks {
  closed(): void
  givenUp(piped: boolean): void
  /** Set where others are fed from the same answer. */
  readonly shared?: SharedSource | undefined
}

/** Listens on a response for the departure of its client. Make it before the handler runs: see watchLeft(). */
export class Departure {
  /** The response was closed before its end, and the handler is still given time. */
  gone = false
  /** The client left before the response ended. */
  left: boolean
  readonly #res: ServerResponse
  readonly #on: DepartureHooks
  readonly #patienceMs: number | undefined
  #isOver = false
  #byApp = false
  #piped: Readable | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(res: ServerResponse, on: DepartureHooks, patienceMs?: number) {
    this.#res = res
    this.#on = on
    this.#patienceMs = patienceMs
    this.left = hasLeft(res)
    res.on('pipe', (source: Readable) => this.#pipedFrom(source))
    res.on('close', () => this.#closed())
    // Before the handler began: there will be no `close`.
    if (!this.left) return
    this.gone = true
    this.#wait(ANSWER_WITHIN_MS)
  }

  /** The app called res.destroy(): no response will follow. */
  destroyedByApp(): void {
    this.#byApp = true
    // The `close` event has passed already; no second one will end the run.
    if (this.gone && this.#patienceMs === undefined) this.#giveUp()
  }

  /** Something was written; after a departure, the time to the next write starts. */
  wrote(): void {
    if (this.gone) this.#wait(WRITE_WITHIN_MS)
  }

  /** The listeners stay: to take them off costs more than to leave them to a response that ends. */
  stop(): void {
    this.#isOver = true
    this.gone = false
    clearTimeout(this.#timer)
  }

  #giveUp(): void {
    if (!this.#isOver) this.#on.givenUp(this.#piped !== undefined)
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer)
    const least = this.#on.shared?.watched() ? ANSWER_WITHIN_MS : 0
    const forMs = Math.min(this.#patienceMs ?? Math.max(ms, least), MAX_TIMEOUT_MS)
    this.#timer = setTimeout(() => this.#giveUp(), forMs).unref()
  }

  #pipedFrom(source: Readable): void {
    if (this.#isOver) return
    if (this.gone) {
      this.#pipedLate(source)
      return
    }
    this.#piped = source
    this.#on.shared?.piped(source)
  }

  /** File servers destroy a source that they pipe to a client that has left, and then nobody ends the response. */
  #pipedLate(source: Readable): void {
    const broken = (): void => {
      if (!this.gone || source.readableEnded) return
      this.#piped = source
      this.#giveUp()
    }
    if (source.destroyed) broken()
    else source.once('close', broken)
  }

  #closed(): void {
    const res = this.#res
    this.left ||= !res.writableEnded
    if (this.#isOver) return
    this.gone = true
    const mayAnswer = this.#patienceMs !== undefined && !res.writableEnded
    const left = !this.#byApp && (mayAnswer || leftByClient(res))
    const piped = this.#piped
    const goesOn = left && (piped === undefined || this.#on.shared?.orphaned(piped) === true)
    if (!goesOn) {
      this.#giveUp()
      return
    }
    this.#wait(res.headersSent ? WRITE_WITHIN_MS : ANSWER_WITHIN_MS)
    this.#on.closed()
  }
}

/** Nobody reads what is written to it. */
export function hasLeft(res: ServerResponse): boolean {
  const stream: unknown = Reflect.get(res, 'stream')
  return Object(stream).destroyed === true || res.destroyed || res.req.socket?.destroyed === true
}

/**
 * Returns a function that tells whether the client left before its response ended. Call this before
 * the handler runs: the handler may listen for the same `close`, and its listener must come second.
 */
export function watchLeft(res: ServerResponse): () => boolean {
  let left = hasLeft(res)
  res.once('close', () => {
    left ||= !res.writableEnded
  })
  return () => left
}

/** A socket that the other side closed has seen its end, or an error. One destroyed from here has not. */
function leftByClient(res: ServerResponse): boolean {
  const { socket } = res
  // HTTP/2 has none any more, and tells nothing else apart.
  if (isHttp2(res)) return true
  return socket !== null && (socket.readableEnded || socket.errored !== null)
}
