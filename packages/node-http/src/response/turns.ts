// Gives other requests a turn of the event loop while a handler writes a large body at once.

import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'

/** Bytes after which a writer has to wait for the next turn. */
export const BYTES_PER_TURN: number = 64 * 1024

/** The answer of write() while a capture takes the body, at any pace of the client. */
export class Turns {
  readonly #res: ServerResponse
  /** Number of bytes that were written before this turn. */
  #before = 0
  #isWaiting = false

  constructor(res: ServerResponse) {
    this.#res = res
  }

  /**
   * Whether the writer may go on, after `bytes` in all. Otherwise `drain` follows in the next turn.
   */
  mayGoOn(bytes: number): boolean {
    // The mark of HTTP/2 responses is undefined in some versions of Node.
    const mark = Math.min(this.#res.writableHighWaterMark ?? BYTES_PER_TURN, BYTES_PER_TURN)
    if (bytes - this.#before < mark) return true
    // A layer in front, such as `compression`, may keep the listeners of `drain` elsewhere. They
    // would not get the event from here.
    if (this.#res.on !== EventEmitter.prototype.on) return true
    if (!this.#isWaiting) {
      this.#isWaiting = true
      setImmediate(() => {
        this.#isWaiting = false
        this.#before = bytes
        this.#res.emit('drain')
      })
    }
    return false
  }
}
