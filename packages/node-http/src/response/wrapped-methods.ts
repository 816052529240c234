// The methods that a ServerResponse had before this package wrapped them: the original methods.
// They belong to Node, or to an outer layer.
//
// A layer is code that wraps the methods of a response, such as a compressor. Inner layers are
// nearer to the handler, outer layers nearer to the client.
//
// A cut (`BodyCut`) holds the bytes for a client that gets only a part of the body, or none of it.
// The cut delays the last of these bytes until the whole body has been captured. A client that has
// all its bytes may leave. Frameworks then destroy the source of the body, and the capture would
// stay incomplete.

import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { chunkBytes } from './body.ts'
import type { BodyCut } from './body-cut.ts'
import { discardWrite } from './write-response.ts'

export type Method = keyof OwnMethods

/**
 * The methods that this package puts on a response. Each takes all argument forms of the method of
 * Node.
 */
export interface OwnMethods {
  writeHead(...args: unknown[]): unknown
  write(...args: unknown[]): unknown
  end(...args: unknown[]): unknown
  flushHeaders(...args: unknown[]): unknown
  destroy(...args: unknown[]): unknown
}

export class WrappedMethods {
  readonly original: Pick<ServerResponse, Method>
  readonly #res: ServerResponse
  #depth = 0
  #cut: BodyCut | undefined
  /**
   * Whether the last byte of the cut may be sent before the body ends, because the body is no
   * longer captured. False again after that byte was sent.
   */
  #released = false

  constructor(res: ServerResponse) {
    const { writeHead, write, end, flushHeaders, destroy } = res
    this.#res = res
    this.original = { writeHead, write, end, flushHeaders, destroy }
  }

  /**
   * Whether an original method is running. It may call other methods of the response, as Node's
   * `end` calls `writeHead`. Such calls go to the original methods unchanged.
   */
  get inside(): boolean {
    return this.#depth > 0
  }

  pass(method: Method, args: readonly unknown[]): unknown {
    if (this.inside || this.#cut === undefined) return this.#call(method, args)
    return this.through(method, args)
  }

  /** From now on, the client gets only the bytes of `cut`. */
  cut(cut: BodyCut): void {
    this.#cut = cut
  }

  /**
   * Called when the capture ends without the whole body. The last byte of the cut is then sent at
   * once, and no longer waits for the end of the body. The response stays open until the handler
   * ends it. If this class ended it, Express would report a file that is still being read as
   * aborted.
   */
  release(): void {
    if (this.#cut === undefined) return
    this.#released = true
    // A client that has all its bytes may leave. pipe() then unpipes the source of the body, and
    // the source would stay open for ever. So the source is read to its end here.
    this.#res.on('unpipe', (source: Readable) => {
      if (this.#cut?.done) setImmediate(() => source.destroyed || source.resume())
    })
    if (!this.inside) this.#sendRest()
  }

  /**
   * Calls an original method for the handler, with the bytes that the cut allows. The original
   * method may call `res.writeHead`, which an inner layer may have wrapped. If the inner layers
   * have already seen the head, pass `ownWriteHead`: it replaces `res.writeHead` during the call,
   * so that they do not see the head twice.
   */
  through(
    method: Method,
    args: readonly unknown[],
    ownWriteHead?: OwnMethods['writeHead'],
  ): unknown {
    const res: OwnMethods = this.#res
    const { writeHead } = res
    const outermost = !this.inside
    const isReplaced = ownWriteHead !== undefined && writeHead !== ownWriteHead
    if (isReplaced) res.writeHead = ownWriteHead
    this.#depth += 1
    try {
      if (!outermost || this.#cut === undefined) return this.#call(method, args)
      const returned = this.#callCut(this.#cut, method, args)
      if (method === 'write') this.#sendRest()
      return returned
    } finally {
      this.#depth -= 1
      if (isReplaced && res.writeHead === ownWriteHead) res.writeHead = writeHead
    }
  }

  #call(method: Method, args: readonly unknown[]): unknown {
    return Reflect.apply(this.original[method], this.#res, args)
  }

  #callCut(cut: BodyCut, method: Method, args: readonly unknown[]): unknown {
    if (method === 'write') return this.#writeCut(cut, args)
    if (method === 'end') return this.#endCut(cut, args)
    // flushHeaders() for a client that needs no further bytes of the body. The head is not sent
    // yet, because such a client would take the head for its whole response, and might leave.
    if (method !== 'flushHeaders' || !cut.done) return this.#call(method, args)
    this.#openHead()
    this.#sendRest()
    return undefined
  }

  #writeCut(cut: BodyCut, args: readonly unknown[]): unknown {
    const chunk = chunkBytes(args[0], args[1])
    if (chunk === undefined) return this.#call('write', args)
    const piece = cut.take(chunk)
    if (piece.byteLength > 0) return this.#call('write', [piece, ...callbackOf(args)])
    this.#openHead()
    return discardWrite(args, true)
  }

  #endCut(cut: BodyCut, args: readonly unknown[]): unknown {
    const chunk = chunkBytes(args[0], args[1])
    const piece = chunk === undefined ? new Uint8Array() : cut.take(chunk)
    const left = Buffer.concat([piece, cut.rest()])
    return this.#call('end', left.byteLength > 0 ? [left, ...callbackOf(args)] : callbackOf(args))
  }

  /**
   * Gives the head to Node, which sends it with the first bytes. `headersSent` is true from then
   * on, so no other code begins a second response.
   */
  #openHead(): void {
    if (!this.#res.headersSent) this.#res.writeHead(this.#res.statusCode)
  }

  #sendRest(): void {
    const cut = this.#cut
    if (!this.#released || cut?.done !== true) return
    this.#released = false
    if (this.#res.writableEnded || this.#res.destroyed) return
    const rest = cut.rest()
    this.#depth += 1
    try {
      if (rest.byteLength > 0) this.#call('write', [rest])
      else this.#call('flushHeaders', [])
    } finally {
      this.#depth -= 1
    }
  }
}

function callbackOf(args: readonly unknown[]): readonly unknown[] {
  return args.filter((arg) => typeof arg === 'function').slice(-1)
}
