// The methods that a response had before a capture wrapped them: the original methods. They belong
// to Node, or to an outer layer.

import { ServerResponse } from 'node:http'
import { Duplex, type Readable } from 'node:stream'
import { isHttp2 } from '../request/read-request.ts'
import { type BodyCut, bytesOf } from './body.ts'

/** The methods that a capture puts on a response. Each takes all argument forms of Node. */
export interface OwnMethods {
  writeHead(...args: unknown[]): unknown
  write(...args: unknown[]): unknown
  end(...args: unknown[]): unknown
  flushHeaders(...args: unknown[]): unknown
  destroy(...args: unknown[]): unknown
}

type Method = keyof OwnMethods

/** A handler may write this many bytes for a client that needs none of them. */
const MOST_DROPPED = 1024 * 1024

/**
 * Calls the original methods of one response. If the client gets only a part of the body, they send
 * that part.
 */
export class OriginalMethods {
  readonly methods: Pick<ServerResponse, Method>
  /** Whether the original writeHead is Node's own, so that no layer gets the head after it. */
  readonly isLast: boolean
  readonly #res: ServerResponse
  /**
   * Whether an original method is running. It may call other methods of the response, as Node's
   * `end` calls `writeHead`. Such calls go to the original methods unchanged.
   */
  isRunning = false
  #cut: BodyCut | undefined
  /**
   * Whether the last byte of the cut may be sent before the body ends, because the body is no
   * longer captured. False again after that byte was sent.
   */
  #released = false
  /**
   * Whether so many bytes follow the cut that the response ends before them, so that the handler
   * does not read a large file for a few bytes of it.
   */
  #endsEarly = false
  #hasEnded = false
  /** Whether a handler that goes on after the early end has to wait. */
  #isFull = false

  constructor(res: ServerResponse) {
    const { writeHead, write, end, flushHeaders, destroy } = res
    this.#res = res
    this.isLast = writeHead === nodesWriteHead
    this.methods = { writeHead, write, end, flushHeaders, destroy }
  }

  /**
   * From now on, the client gets only the bytes of `cut`. `length` is that of the whole body.
   * Returns whether the response ends early if the body is not captured.
   */
  cut(cut: BodyCut | undefined, length = 0): boolean {
    this.#cut = cut
    this.#endsEarly = cut !== undefined && length - cut.end > MOST_DROPPED
    return this.#endsEarly
  }

  pass(method: Method, args: readonly unknown[]): unknown {
    const isPlain = this.isRunning || this.#cut === undefined
    return isPlain ? this.#call(method, args) : this.through(method, args)
  }

  /**
   * Calls a method for the handler, with the bytes that the client gets. The original method may
   * call `res.writeHead`, which an inner layer may have wrapped. If the inner layers have already
   * seen the head, pass `ownWriteHead`: it replaces `res.writeHead` during the call, so that they
   * do not see the head twice.
   */
  through(
    method: Method,
    received: readonly unknown[],
    ownWriteHead?: OwnMethods['writeHead'],
  ): unknown {
    const res: OwnMethods = this.#res
    const { writeHead } = res
    const isReplaced = ownWriteHead !== undefined && writeHead !== ownWriteHead
    // An outer layer may change a chunk in place, and the entry must have the bytes of the handler.
    const chunk = chunkFor(this.#res, this.methods[method], received[0])
    const args = chunk === received[0] ? received : received.with(0, chunk)
    const cut = this.isRunning ? undefined : this.#cut
    if (isReplaced) res.writeHead = ownWriteHead
    const wasRunning = this.isRunning
    this.isRunning = true
    try {
      if (cut === undefined) return this.#call(method, args)
      const returned = this.#callCut(cut, method, args)
      this.#sendRest()
      return returned
    } finally {
      this.isRunning = wasRunning
      if (isReplaced && res.writeHead === ownWriteHead) res.writeHead = writeHead
    }
  }

  /**
   * Called when the capture ends without the whole body. The last byte of the cut is then sent at
   * once, and no longer waits for the end of the body. The response stays open until the handler
   * ends it, unless too many bytes follow. If this class ends it, Express reports the file that is
   * still being read as aborted.
   */
  release(): void {
    const cut = this.#cut
    if (cut === undefined) return
    this.#released = true
    // A client that has all its bytes may leave. pipe() then unpipes the source of the body, and
    // the source would stay open for ever. So the source is read to its end here, or destroyed.
    this.#res.on('unpipe', (source: Readable) => {
      if (!cut.done) return
      // Behind a transform there is another source, which would stay open.
      if (this.#hasEnded && !(source instanceof Duplex)) source.destroy()
      else setImmediate(() => source.destroyed || source.resume())
    })
    if (!this.isRunning) this.run(() => this.#sendRest())
  }

  /**
   * Calls `send`, which calls the original methods. On HTTP/2, the `end` of Node calls `res.write`.
   */
  run(send: () => void): void {
    this.isRunning = true
    try {
      send()
    } finally {
      this.isRunning = false
    }
  }

  #call(method: Method, args: readonly unknown[]): unknown {
    return Reflect.apply(this.methods[method], this.#res, args)
  }

  #callCut(cut: BodyCut, method: Method, args: readonly unknown[]): unknown {
    const chunk = bytesOf(args[0], args[1])
    if (method === 'write' && chunk !== undefined) {
      const piece = cut.take(chunk)
      if (piece.byteLength > 0) return this.#call('write', [piece, ...callbackOf(args)])
      this.#openHead()
      return discardWrite(args, !this.#isFull)
    }
    if (method === 'end') {
      if (this.#hasEnded) return discardWrite(args, this.#res)
      const piece = chunk === undefined ? new Uint8Array() : cut.take(chunk)
      const left = Buffer.concat([piece, cut.rest()])
      return this.#call('end', left.byteLength > 0 ? [left, ...callbackOf(args)] : callbackOf(args))
    }
    // flushHeaders() for a client that needs no further bytes of the body. The head is not sent
    // yet, because such a client would take the head for its whole response, and might leave.
    if (method !== 'flushHeaders' || !cut.done) return this.#call(method, args)
    this.#openHead()
    return undefined
  }

  /**
   * Gives the head to Node, which sends it with the first bytes. `headersSent` is true from then
   * on, so no other code begins a second response.
   */
  #openHead(): void {
    if (!this.#res.headersSent) this.#res.writeHead(this.#res.statusCode)
  }

  #sendRest(): void {
    if (!this.#released || this.#cut?.done !== true) return
    this.#released = false
    if (this.#res.writableEnded || this.#res.destroyed) return
    const rest = this.#cut.rest()
    if (this.#endsEarly) this.#endEarly(rest)
    else if (rest.byteLength > 0) this.#call('write', [rest])
    else this.#call('flushHeaders', [])
  }

  /** Until the client has its bytes, the handler has to wait. Then further bytes are dropped. */
  #endEarly(rest: Uint8Array): void {
    this.#hasEnded = true
    this.#isFull = true
    this.#res.once('finish', () => {
      this.#isFull = false
      this.#res.emit('drain')
    })
    this.#call('end', rest.byteLength > 0 ? [rest] : [])
  }
}

function callbackOf(args: readonly unknown[]): readonly unknown[] {
  return args.filter((arg) => typeof arg === 'function').slice(-1)
}

/** Discards a write or an end. Its callback runs nevertheless, so that streams can end. */
export function discardWrite<T>(args: readonly unknown[], returned: T): T {
  const callback = args.findLast((arg) => typeof arg === 'function')
  if (typeof callback === 'function') process.nextTick(callback)
  return returned
}

// Node's methods, and those that wrap them

/**
 * Node's own writeHead, which takes headers as an array. A layer that wraps writeHead may accept
 * only an object (on-headers before 1.1). If such a layer sets a field, Node 20 drops repeated
 * names of the array.
 */
export const nodesWriteHead: ServerResponse['writeHead'] = ServerResponse.prototype.writeHead

const { end: nodeEnd, write: nodeWrite } = ServerResponse.prototype

/**
 * Whether the method is one of Node's own for HTTP/2. `node:http2` is not imported, because loading
 * it takes as long as 20 of our files. A response of HTTP/2 shows that the app has loaded it.
 */
function isHttp2Own(res: ServerResponse, method: unknown): boolean {
  if (!isHttp2(res)) return false
  const { end, write } = process.getBuiltinModule('node:http2').Http2ServerResponse.prototype
  return method === end || method === write
}

/** Whether an outer layer wraps `end`, the method of `res`, and so may change the body. */
export function isWrapped(res: ServerResponse, end: unknown = res.end): boolean {
  // Nearly every response has this `end`.
  return end !== nodeEnd && !isHttp2Own(res, end)
}

/**
 * The chunk, or a copy if a layer wraps `method` and could change the chunk, which an entry or
 * other clients share. Node's own methods do not change a chunk.
 */
export function chunkFor<T>(res: ServerResponse, method: unknown, chunk: T): T | Buffer {
  if (method === nodeEnd || method === nodeWrite || isHttp2Own(res, method)) return chunk
  return chunk instanceof Uint8Array ? Buffer.from(chunk) : chunk
}

/**
 * Calls `before` with the arguments before each call of a method, and `after` after it. Does
 * nothing if there is no such method.
 */
export function watchCalls(
  watched: object,
  method: string,
  before: ((...args: readonly unknown[]) => void) | undefined,
  after?: () => void,
): void {
  const target = watched as Record<string, unknown>
  const original = target[method]
  if (typeof original !== 'function') return
  const own = (...args: readonly unknown[]): unknown => {
    before?.(...args)
    const returned = Reflect.apply(original, target, args)
    after?.()
    return returned
  }
  // `Object.assign` would take nine times as long.
  target[method] = own
}
