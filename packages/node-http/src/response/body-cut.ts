// BodyCut: the bytes for a client that does not get the whole captured body. Such a client gets a
// part (206), other bytes (416) or none (304).
//
// The last byte is delayed until the whole body has been captured. A client that has all its bytes
// may leave. Frameworks then destroy the source of the body, and the fill would end incomplete.

import { Readable } from 'node:stream'

/** Cuts a byte range out of a body that arrives in chunks. */
export class BodyCut {
  readonly #start: number
  readonly #end: number
  #at = 0
  #rest: Uint8Array | undefined

  /** The client gets the bytes from `start` to before `end`, then `rest`. */
  constructor(start: number, end: number, rest?: Uint8Array) {
    this.#start = start
    this.#end = end
    this.#rest = rest
  }

  /** Whether the chunks that follow have no byte for this client. */
  get done(): boolean {
    return this.#at >= this.#end
  }

  /** Returns the bytes of the next chunk that may be sent now. */
  take(chunk: Uint8Array): Uint8Array {
    const from = Math.min(Math.max(0, this.#start - this.#at), chunk.byteLength)
    const to = Math.min(Math.max(0, this.#end - this.#at), chunk.byteLength)
    this.#at += chunk.byteLength
    const piece = chunk.subarray(from, to)
    if (!this.done || piece.byteLength === 0) return piece
    // A copy, because the handler may reuse its buffer once write() has returned.
    this.#rest = Uint8Array.from(piece.subarray(-1))
    return piece.subarray(0, -1)
  }

  /** Returns the bytes that were delayed. A second call returns none. */
  rest(): Uint8Array {
    const rest = this.#rest ?? new Uint8Array()
    this.#rest = undefined
    return rest
  }
}

/**
 * A stream of the bytes of `cut`, for a body that is not captured. The source is destroyed once the
 * stream has all these bytes. `onError` is called with the stream if the source fails. Default: it
 * destroys the stream.
 */
export function cutStream(
  source: AsyncIterable<unknown>,
  cut: BodyCut,
  onError: (stream: Readable, error: Error) => void = (stream, error) => stream.destroy(error),
): Readable {
  async function* pieces(): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of chunksOf(source)) {
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Uint8Array)
        const piece = cut.take(bytes)
        if (piece.byteLength > 0) yield piece
        if (cut.done) break
      }
      const rest = cut.rest()
      if (rest.byteLength > 0) yield rest
    } catch (error) {
      onError(stream, error as Error)
    } finally {
      if (source instanceof Readable) source.destroy()
    }
  }
  const stream = Readable.from(pieces(), { objectMode: false })
  return stream
}

/**
 * The chunks of the source. If a loop over a Node stream ends early, Node destroys the stream with
 * an AbortError, which Koa 2 would report.
 */
function chunksOf(source: AsyncIterable<unknown>): AsyncIterable<unknown> {
  return source instanceof Readable ? source.iterator({ destroyOnReturn: false }) : source
}
