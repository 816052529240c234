// The methods of a ServerResponse as they were before we wrapped them, and two ways to call them.

import type { ServerResponse } from 'node:http'

import { discardWrite } from './write-response.ts'

export type Method = 'writeHead' | 'write' | 'end' | 'flushHeaders' | 'destroy'

export class WrappedMethods {
  readonly original: Pick<ServerResponse, Method>
  readonly #res: ServerResponse
  #depth = 0
  #muted = false

  constructor(res: ServerResponse) {
    const { writeHead, write, end, flushHeaders, destroy } = res
    this.#res = res
    this.original = { writeHead, write, end, flushHeaders, destroy }
  }

  /** While a wrapped method runs: what it calls in turn is its own business. */
  get inside(): boolean {
    return this.#depth > 0
  }

  pass(method: Method, args: readonly unknown[]): unknown {
    if (!this.#muted) return Reflect.apply(this.original[method], this.#res, args)
    if (method === 'write' || method === 'flushHeaders') {
      // Settled, so that nobody can answer something else; what is not flushed is not on its way.
      if (!this.#res.headersSent) this.#res.writeHead(this.#res.statusCode)
      return method === 'write' ? discardWrite(args, true) : undefined
    }
    const sent = method === 'end' ? args.filter((arg) => typeof arg === 'function') : args
    return Reflect.apply(this.original[method], this.#res, sent)
  }

  /**
   * The client has the body already: it gets the head alone, when the body is at its end. Earlier, it would leave as soon as
   * it is told, and with it the source of a body that others want.
   */
  mute(): void {
    this.#muted = true
  }

  /** Calls the layers outside us. With `ownWriteHead` those inside us have had their turn with the head. */
  through(method: Method, args: readonly unknown[], ownWriteHead?: unknown): unknown {
    const { writeHead } = this.#res
    if (ownWriteHead !== undefined) Object.assign(this.#res, { writeHead: ownWriteHead })
    this.#depth += 1
    try {
      return this.pass(method, args)
    } finally {
      this.#depth -= 1
      if (this.#res.writeHead === ownWriteHead) this.#res.writeHead = writeHead
    }
  }
}
