// Copies a response body, up to a limit, while it goes to the client.

import { finished, PassThrough, Readable } from 'node:stream'
import type { BodyCut } from './body-cut.ts'
import { BYTES_PER_TURN } from './turns.ts'

/**
 * Collects the chunks of a body. If the body exceeds the limit, drops all chunks and only counts
 * bytes.
 */
export class BodyCollector {
  bytes = 0
  readonly #maxBytes: number
  #chunks: Uint8Array[] = []

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get fits(): boolean {
    return this.bytes <= this.#maxBytes
  }

  /** Adds a chunk. False once the body exceeds the limit. Only strings and byte arrays count. */
  add(chunk: unknown, encoding?: unknown): boolean {
    this.bytes += byteLength(chunk, encoding)
    const { fits } = this
    if (!fits) this.drop()
    else if (isChunk(chunk)) this.#chunks.push(ownBytes(chunk, encoding))
    return fits
  }

  /** Adds a chunk without a copy. No other code may change `bytes`. */
  addOwn(bytes: Uint8Array): boolean {
    this.bytes += bytes.byteLength
    const { fits } = this
    if (fits) this.#chunks.push(bytes)
    else this.drop()
    return fits
  }

  take(): Uint8Array {
    const chunks = this.#chunks
    return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  }

  drop(): void {
    this.#chunks = []
  }
}

function isChunk(chunk: unknown): chunk is string | Uint8Array {
  return typeof chunk === 'string' || chunk instanceof Uint8Array
}

/** A copy of the chunk, because an app may reuse its buffer as soon as write() has returned. */
function ownBytes(chunk: string | Uint8Array, encoding: unknown): Buffer {
  if (typeof chunk === 'string') return textBytes(chunk, encoding)
  // Allocates outside of Node's buffer pool. An entry must not hold a view of the pool, so it would
  // have to copy the bytes again.
  const own = Buffer.allocUnsafeSlow(chunk.byteLength)
  own.set(chunk)
  return own
}

/** The bytes of a string in a buffer outside the pool. */
function textBytes(text: string, encoding: unknown): Buffer {
  const as = encodingOf(encoding)
  if (as !== 'utf8' && as !== 'utf-8') return Buffer.from(text, as)
  const own = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  own.write(text)
  return own
}

/** The chunk passed to write() or end(). Undefined: no chunk, or a type that Node rejects. */
export function chunkBytes(chunk: unknown, encoding: unknown): Uint8Array | undefined {
  if (typeof chunk === 'string') return Buffer.from(chunk, encodingOf(encoding))
  return chunk instanceof Uint8Array ? chunk : undefined
}

/** The whole body passed to end(). A byte array is the app's own buffer, not a copy. */
export function wholeBody([chunk, encoding]: readonly unknown[]): Uint8Array | undefined {
  if (typeof chunk === 'string') return textBytes(chunk, encoding)
  if (chunk === undefined || chunk === null || typeof chunk === 'function') return new Uint8Array()
  return chunk instanceof Uint8Array ? chunk : undefined
}

function byteLength(chunk: unknown, encoding: unknown): number {
  if (typeof chunk === 'string') return Buffer.byteLength(chunk, encodingOf(encoding))
  return chunk instanceof Uint8Array ? chunk.byteLength : 0
}

function encodingOf(encoding: unknown): BufferEncoding {
  return typeof encoding === 'string' && Buffer.isEncoding(encoding) ? encoding : 'utf8'
}

/** How a stream ended that `teeStream` copied. */
export type TeeEnd =
  | { readonly type: 'whole'; readonly body: Uint8Array }
  | { readonly type: 'too-large' }
  | { readonly type: 'incomplete' }

/** A stream that is copied while its chunks go to the client. */
export interface Tee {
  /** The stream for the client, in place of the source. */
  readonly stream: Readable
  readonly ended: Promise<TeeEnd>
}

/**
 * Copies the source while its chunks go to the client. Up to `maxBytes` are buffered for a slow
 * client, so that waiters for the copy do not wait for this client. A larger body is read at the
 * client's pace.
 *
 * - `onError` is called with the stream if the source fails. Default: it destroys the stream.
 * - `beforeEnd` delays the end of a complete body until its promise has settled.
 * - `cut` selects the bytes that the client gets. The copy still has the whole body.
 */
export function teeStream(
  source: Readable | AsyncIterable<unknown>,
  maxBytes: number,
  onError: (stream: Readable, error: Error) => void = (stream, error) => stream.destroy(error),
  beforeEnd?: (body: Uint8Array) => Promise<void>,
  cut?: BodyCut,
): Tee {
  const collector = new BodyCollector(maxBytes)
  let end: (end: TeeEnd) => void = () => {}
  const ended = new Promise<TeeEnd>((resolve) => {
    end = resolve
  })
  let inTurn = 0
  const stream = new PassThrough({
    readableHighWaterMark: Math.max(maxBytes, 16 * 1024),
    transform(chunk, encoding, done) {
      if (!collector.add(chunk, encoding)) end({ type: 'too-large' })
      const own = cut === undefined ? chunk : cut.take(chunk)
      inTurn += chunk.length
      if (inTurn < BYTES_PER_TURN) return done(null, own)
      inTurn = 0
      setImmediate(done, null, own)
    },
    flush(done) {
      const body = collector.take()
      end({ type: 'whole', body })
      if (cut !== undefined) stream.push(cut.rest())
      const held = collector.fits ? beforeEnd?.(body) : undefined
      if (held === undefined) done()
      else
        held.then(
          () => done(),
          () => done(),
        )
    },
  })
  const readable = source instanceof Readable ? source : Readable.from(source)
  const failed = (error?: Error): void => {
    collector.drop()
    end({ type: 'incomplete' })
    if (error !== undefined) onError(stream, error)
  }
  stream.once('close', () => {
    failed()
    readable.destroy()
  })
  feed(readable, stream, failed)
  return { stream, ended }
}

/** Works like pipeline(), but an error of the source goes to `failed`, not to the stream. */
function feed(source: Readable, stream: PassThrough, failed: (error?: Error) => void): void {
  // Without this listener, an error would be an uncaught exception if the stream has no reader yet.
  stream.on('error', () => {})
  finished(source, { writable: false }, (error) => {
    if (error !== null && error !== undefined && !stream.destroyed) failed(error)
  })
  source.pipe(stream)
}
