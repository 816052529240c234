// The original methods of a wrapped ServerResponse. Calls pass them only the bytes for this client.

import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { chunkBytes } from './body.ts'
import type { BodyCut } from './body-cut.ts'
import { discardWrite } from './write-response.ts'

export type Method = keyof OwnMethods

/** Our methods of a response. Each takes all argument forms of the method of Node. */
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
  /** Whether the last byte need not be delayed any more, because the body is not captured. */
  #released = false

  constructor(res: ServerResponse) {
    const { writeHead, write, end, flushHeaders, destroy } = res
    this.#res = res
    this.original = { writeHead, write, end, flushHeaders, destroy }
  }

  /**
   * Whether a wrapped method is running. Calls that the method itself makes are passed on
   * unchanged.
   */
  get inside(): boolean {
    return this.#depth > 0
  }

  pass(method: Method, args: readonly unknown[]): unknown {
    if (this.inside || this.#cut === undefined) return this.#call(method, args)
    return this.through(method, args)
  }

  /** The client gets only the bytes of `cut` after this call. */
  cut(cut: BodyCut): void {
    this.#cut = cut
  }

  /**
   * Called if the body is not captured. The client then gets its last byte at once. Only the
   * handler ends the response. If it ended earlier, Express would report a file that is still being
   * read as aborted.
   */
  release(): void {
    if (this.#cut === undefined) return
    this.#released = true
    // A client that has its part may leave. pipe() then unpipes the source, which would stay open.
    // So the source is read to its end.
    this.#res.on('unpipe', (source: Readable) => {
      if (this.#cut?.done) setImmediate(() => source.destroyed || source.resume())
    })
    if (!this.inside) this.#sendRest()
  }

  /**
   * Calls a method of the outer layers. If the inner layers have already seen the head,
   * `res.writeHead` is `ownWriteHead` during the call.
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
    // The head is not flushed, because a client that gets no body would take the head for the whole
    // response.
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

  /** Writes the head without sending it, so that no other response can begin. */
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
