// Watches a handler under an idempotency key, and delays the end of its response until core has the
// outcome. Meanwhile the response already looks ended: a handler that responds a second time must
// get the error that Node would throw. Otherwise the headers of the second response would be sent
// with the first body, and the client would wait for bytes that never come.
//
// A whole response is delayed as the calls that write it. They are made later, in their order, so
// that the client gets what it would get without the delay.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import { StampedeError } from '@stampede/core'
import type {
  CapturedHead,
  IdempotentExchange,
  OriginEnd,
  OriginObserver,
  Reply,
} from '@stampede/core/adapter'
import { Connection, hasLeft } from '../request/client-gone.ts'
import { isHttp2 } from '../request/read-request.ts'
import { bytesOf, notCaptured, ownBytes } from './body.ts'
import { Capture } from './capture.ts'
import type { Args, Call, CaptureObserver, EndHold, Send } from './capture-options.ts'
import { headOf, OuterFields } from './fields.ts'
import { discardWrite } from './original-methods.ts'
import { breakOff, isSendable } from './write-response.ts'

export type AttemptObserver = Parameters<IdempotentExchange['run']>[0]
type AttemptEnd = Parameters<AttemptObserver['onEnd']>[0]
/** The decision of core. `unknown`: nothing is known about the outcome, so nothing is sent. */
type Outcome = Reply | 'as-held' | 'unknown'

/** The error for a response that cannot be sent, or that ended before it was complete. */
export const responseError = (why: string): StampedeError =>
  new StampedeError('ERR_STAMPEDE_RESPONSE', why)

const NONE: readonly never[] = []
const TOO_LARGE = notCaptured('too-large')
const NO_BODY = new Uint8Array()

/**
 * Whether the body may be missing because the client has left. Koa 3 then calls `end()` without the
 * body. Koa 2 never ends the response.
 */
function lacksBody(res: ServerResponse, { head, body }: OriginEnd & { type: 'complete' }): boolean {
  if (body.byteLength > 0 || !hasLeft(res) || [204, 205, 304].includes(head.status)) return false
  return head.headers.every(([name, value]) => name !== 'content-length' || value !== '0')
}

/**
 * Watches one run, and reports its end to core once. Create it before the app runs. An end that
 * cannot be delayed is reported at once.
 */
export class AttemptWatch implements CaptureObserver, EndHold {
  readonly holdsAll: boolean
  readonly maxBodyBytes: number
  readonly graceMs: number
  /** Fields that were set before the app runs. */
  readonly outer: OuterFields
  active = false
  keeps: boolean
  isFull = false
  ownChunk: Uint8Array | undefined
  unsend: (() => void) | undefined
  reported: { readonly until: ReturnType<AttemptObserver['onEnd']> } | undefined
  readonly #res: ServerResponse
  readonly #observer: AttemptObserver
  readonly #isFront: boolean
  readonly #capture: Capture
  readonly #kept: Call[] = []
  #seen: CapturedHead | undefined
  #thrown: { readonly error: unknown } | undefined
  #stopped = false
  #connection: Connection | undefined

  /** `isFront`: an empty response may be that of a framework that sends no body to nobody. */
  constructor(res: ServerResponse, observer: AttemptObserver, isFront = false) {
    this.holdsAll = observer.holdsAll
    this.keeps = observer.holdsAll
    this.maxBodyBytes = observer.maxBodyBytes
    this.graceMs = observer.graceMs
    this.#res = res
    this.#observer = observer
    this.#isFront = isFront
    this.outer = new OuterFields(res)
    this.#capture = new Capture(res, this, { outer: this.outer, hold: this })
  }

  onHead(head: CapturedHead): ReturnType<OriginObserver['onHead']> {
    this.#seen = head
    return { action: 'send', capture: true, add: [], remove: [] }
  }

  /** An end that was not delayed is reported now. */
  readonly ended = (end: OriginEnd): void => {
    if (!this.#stopped && this.reported === undefined) void this.#reportCaptured(end)
  }

  #reportCaptured(end: OriginEnd): ReturnType<AttemptObserver['onEnd']> {
    const isWhole = end.type === 'complete' && !(this.#isFront && lacksBody(this.#res, end))
    return this.report(isWhole ? end : this.#endWithoutBody(end))
  }

  /** Reports the end to core, unless an end was reported before. */
  report(end: AttemptEnd): ReturnType<AttemptObserver['onEnd']> {
    this.reported ??= { until: this.#observer.onEnd(end) }
    return this.reported.until
  }

  /** Call this when the app has thrown. Its framework may still send an error response. */
  threw(error: unknown): void {
    this.#thrown = { error }
    // Frameworks leave a response open whose head looks sent.
    const { headersSent, writableEnded } = this.#res
    if (this.holdsAll && headersSent && !writableEnded) this.#res.destroy()
  }

  /** Reports the end of a response with this head. */
  reportAs(end: OriginEnd, head: CapturedHead): ReturnType<AttemptObserver['onEnd']> {
    return this.report(end.type === 'complete' ? end : this.#cutOff(end, head))
  }

  /** The end of a response whose body was not captured. If all of it was held, none was sent. */
  #cutOff(end: OriginEnd, head: CapturedHead): AttemptEnd {
    const isTooLarge = end.type === 'not-captured' && end.reason === 'too-large'
    if (!this.holdsAll || isTooLarge) return { type: 'not-retained', head }
    return { type: 'failed', error: responseError('the response ended before it was complete') }
  }

  /** Stops watching, because other code reports the end. */
  stop(): void {
    this.#stopped = true
    this.#capture.stop()
  }

  #endWithoutBody(end: OriginEnd): AttemptEnd {
    const { status, headers } = this.#seen ?? headOf(this.#res)
    // The response may have been sent without a call of our wrapped methods.
    if (this.#seen !== undefined || this.#res.headersSent)
      return this.#cutOff(end, this.outer.storedHead(status, headers))
    return this.#thrown ? { type: 'failed', ...this.#thrown } : { type: 'unanswered' }
  }

  keep(method: Call[0], args: Args): unknown {
    this.unsend ??= lookSent(this.#res as NodesState, false)
    // The app may wait for the callback of a write before it goes on.
    const isWrite = method === 'write'
    const own = isWrite ? args.filter((arg) => typeof arg !== 'function') : args
    const [chunk] = own
    this.ownChunk = chunk instanceof Uint8Array ? ownBytes(chunk) : undefined
    this.#kept.push([method, this.ownChunk ? own.with(0, this.ownChunk) : own])
    return isWrite ? discardWrite(args, !this.isFull) : this.#res
  }

  overflow(send: Send): void {
    if (this.isFull) return
    this.isFull = true
    this.end(TOO_LARGE, undefined, send)
  }

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

  end(end: OriginEnd, args: Args | undefined, send: Send): void {
    if (end.type !== 'complete' && !this.keeps) {
      send(args ? [['end', args]] : NONE, undefined)
      return
    }
    this.active = args !== undefined
    let until: ReturnType<AttemptObserver['onEnd']>
    try {
      until = this.#reportCaptured(end)
    } catch (error) {
      until = Promise.reject(error)
    }
    // Otherwise the copies of the chunks would stay in memory beside the body.
    const calls: readonly Call[] | undefined = args && [...this.#kept.splice(0), ['end', args]]
    this.ownChunk = undefined
    if (until === undefined) {
      this.#release(end, calls, send, 'as-held')
      return
    }
    const held = calls && partsOf(calls, end.type === 'complete' ? end.body : NO_BODY)
    const res = this.#res
    const { statusCode } = res
    const restore = this.active ? lookSent(res as NodesState, true) : undefined
    const connection = Connection.hold(res)
    this.#connection = connection
    const go = (outcome: Outcome = 'as-held'): void => {
      restore?.()
      // A second response may have assigned another status meanwhile.
      if (!res.headersSent) res.statusCode = statusCode
      this.#release(end, held, send, outcome)
      connection?.release(res)
    }
    until.then(go, () => go(this.keeps ? 'unknown' : 'as-held'))
  }

  delays(args: Args, now: () => unknown): boolean {
    return this.active && this.#connection?.delays(args, now) === true
  }

  /**
   * Calls `send`. If an outer layer throws in it, the error becomes a warning, because the handler
   * has returned by now and cannot catch it. Without `calls`, the app has not ended the response.
   */
  #release(end: OriginEnd, calls: readonly Call[] | undefined, send: Send, outcome: Outcome): void {
    const isCut = this.keeps && end.type === 'not-captured' && end.reason === 'incomplete'
    const reply = typeof outcome === 'string' ? undefined : outcome
    const isBroken = isCut || outcome === 'unknown' || (reply && !isSendable(reply))
    this.active = false
    this.keeps = false
    if (isBroken) breakOff(this.#res)
    this.unsend?.()
    this.unsend = undefined
    try {
      send(isBroken ? NONE : (calls ?? this.#kept.splice(0)), reply)
      if (this.isFull) this.#res.emit('drain')
      this.isFull = false
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
      breakOff(this.#res)
    }
  }
}

/**
 * The last calls of a response, with chunks that are parts of its whole body. So the body is in
 * memory once, and the app may reuse its buffers. A chunk without a place in the body is copied,
 * such as that of a response to HEAD.
 */
function partsOf(calls: readonly Call[], body: Uint8Array): readonly Call[] {
  const parts = [...calls]
  let at = body.byteLength
  for (const [i, [method, args]] of [...calls.entries()].reverse()) {
    const [chunk, encoding] = args
    // Not Buffer.byteLength(), which also counts characters that base64 and hex leave out.
    const bytes = bytesOf(chunk, encoding)
    if (bytes === undefined) continue
    const end = at
    at -= bytes.byteLength
    if (bytes === chunk)
      parts[i] = [method, args.with(0, at < 0 ? ownBytes(bytes) : body.subarray(at, end))]
  }
  return parts
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
