// Keeping a copy of a body while it goes to the client: bounded, byte for byte, whatever it was
// written in.

import { finished, PassThrough, Readable } from 'node:stream'
import type { BodyCut } from './body-cut.ts'
import type { LiveFeed } from './live-feed.ts'
import { readOn } from './read-on.ts'

/** Chunks kept so far; over the limit, everything kept is let go and only counting goes on. */
export class BodyCollector {
  bytes = 0
  readonly #maxBytes: number
  readonly #live: LiveFeed | undefined
  #chunks: Uint8Array[] = []

  /** `live` is given each chunk, as long as it wants them. */
  constructor(maxBytes: number, live?: LiveFeed) {
    this.#maxBytes = maxBytes
    this.#live = live
  }

  get fits(): boolean {
    return this.bytes <= this.#maxBytes
  }

  /** False once the body is larger than may be kept. Chunks of other types are not counted. */
  add(chunk: unknown, encoding?: unknown): boolean {
    this.bytes += byteLength(chunk, encoding)
    const { fits } = this
    if (!fits) {
      this.#chunks = []
      this.#live?.tooLarge()
    }
    if (!isChunk(chunk) || (!fits && this.#live?.active !== true)) return fits
    this.#keep(ownBytes(chunk, encoding))
    return fits
  }

  /** As `add`, for bytes that only this collector has. */
  addOwn(bytes: Uint8Array): boolean {
    this.bytes += bytes.byteLength
    const { fits } = this
    if (fits) this.#keep(bytes)
    else {
      this.drop()
      this.#live?.tooLarge()
    }
    return fits
  }

  #keep(own: Uint8Array): void {
    if (this.fits) this.#chunks.push(own)
    this.#live?.add(own)
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

/** Always a copy: an app may use its buffer again as soon as write() has returned. */
function ownBytes(chunk: string | Uint8Array, encoding: unknown): Buffer {
  if (typeof chunk === 'string') return textBytes(chunk, encoding)
  // Not from the pool: an entry would copy a view of the pool once more.
  const own = Buffer.allocUnsafeSlow(chunk.byteLength)
  own.set(chunk)
  return own
}

/** The bytes of a string, in a buffer of their own. */
function textBytes(text: string, encoding: unknown): Buffer {
  const as = encodingOf(encoding)
  if (as !== 'utf8' && as !== 'utf-8') return Buffer.from(text, as)
  const own = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  own.write(text)
  return own
}

/** The chunk passed to write() or end(). Undefined: none, or one of a type that Node refuses. */
export function chunkBytes(chunk: unknown, encoding: unknown): Uint8Array | undefined {
  if (typeof chunk === 'string') return Buffer.from(chunk, encodingOf(encoding))
  return chunk instanceof Uint8Array ? chunk : undefined
}

/** What end() was given as the whole body. Of a chunk of bytes it is the app's own buffer. */
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

/** How a teed stream ended. */
export type TeeEnd =
  | { readonly type: 'whole'; readonly body: Uint8Array }
  | { readonly type: 'too-large' }
  | { readonly type: 'incomplete' }

export interface Tee {
  /** What the client reads instead of the source. */
  readonly stream: Readable
  readonly ended: Promise<TeeEnd>
}

/**
 * Hands the source on, chunk by chunk, and keeps a copy. It buffers up to `maxBytes` for a slow client,
 * so that those who wait for the copy do not wait for him; a larger body goes at the client's pace.
 * `onError` decides how the error of a source reaches the stream (default: it is destroyed with it). The end of a whole
 * body is held until `beforeEnd` has settled. While others read it `live`, the source is read on without this client.
 * The client gets only what `cut` lets through. The copy has the whole body.
 */
export function teeStream(
  source: Readable | AsyncIterable<unknown>,
  maxBytes: number,
  onError: (stream: Readable, error: Error) => void = (stream, error) => stream.destroy(error),
  beforeEnd?: (body: Uint8Array) => Promise<void>,
  live?: LiveFeed,
  cut?: BodyCut,
): Tee {
  const collector = new BodyCollector(maxBytes, live)
  let end: (end: TeeEnd) => void = () => {}
  const ended = new Promise<TeeEnd>((resolve) => {
    end = resolve
  })
  const take = (chunk: unknown, encoding?: unknown): void => {
    if (!collector.add(chunk, encoding)) end({ type: 'too-large' })
  }
  const whole = (): Uint8Array => {
    const body = collector.take()
    end({ type: 'whole', body })
    live?.end(true)
    return body
  }
  const isShared = live?.active === true
  const stream = new PassThrough({
    readableHighWaterMark: Math.max(maxBytes, 16 * 1024),
    transform(chunk, encoding, done) {
      if (!isShared) take(chunk, encoding)
      done(null, cut === undefined ? chunk : cut.take(chunk))
    },
    flush(done) {
      const body = whole()
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
    live?.end(false)
    if (error !== undefined) onError(stream, error)
  }
  stream.once('close', () => {
    if (live?.watched && readable.readableEnded) whole()
    else if (live?.watched && !readable.destroyed) {
      // After `pipe` has let go of it.
      setImmediate(() => readOn(readable, live, () => {}, whole, failed))
      return
    }
    failed()
    readable.destroy()
  })
  // At the source: what the stream for this client holds when it is destroyed would be missing for the others.
  if (isShared) readable.on('data', (chunk: unknown) => take(chunk))
  feed(readable, stream, failed)
  return { stream, ended }
}

/** What pipeline does, except that the error of a source is handed to `failed` and not to the stream. */
function feed(source: Readable, stream: PassThrough, failed: (error?: Error) => void): void {
  // An error before anybody reads the stream must not be an uncaught one; its reader will see it.
  stream.on('error', () => {})
  finished(source, { writable: false }, (error) => {
    if (error !== null && error !== undefined && !stream.destroyed) failed(error)
  })
  source.pipe(stream)
}
