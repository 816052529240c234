// Bytes of a response body: copies of up to a limit, and the range that its client gets.

import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { finished, PassThrough, Readable } from 'node:stream'
import type { CapturedHead, OriginEnd, Reply } from '@stampede/core/adapter'

/**
 * Collects the chunks of a body. If the body exceeds the limit, drops all chunks and only counts
 * bytes.
 */
export class BodyCollector {
  bytes = 0
  /** Whether the body so far is within the limit. */
  fits = true
  readonly #maxBytes: number
  #chunks: Uint8Array[] = []

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /**
   * Adds a chunk. False once the body exceeds the limit. Only strings and byte arrays count.
   * `known` are its bytes, if the caller has them already.
   */
  add(chunk: unknown, encoding?: unknown, known?: Uint8Array): boolean {
    const bytes = known ?? bytesOf(chunk, encoding)
    this.bytes += bytes?.byteLength ?? 0
    this.fits = this.bytes <= this.#maxBytes
    if (!this.fits) this.drop()
    else if (bytes !== undefined) this.#chunks.push(bytes === chunk ? ownBytes(bytes) : bytes)
    return this.fits
  }

  /** The body is complete unless it is too large or its length differs from the declared one. */
  end(head: CapturedHead, method: string | undefined): OriginEnd {
    if (!this.fits) return notCaptured('too-large')
    return hasBody(head.status, method)
      ? endWith(head, this.take())
      : { type: 'complete', head, body: new Uint8Array() }
  }

  /** The body so far, which the collector no longer has. */
  take(): Uint8Array {
    const [first] = this.#chunks
    const body = first && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks)
    this.#chunks = []
    return body
  }

  drop(): void {
    this.#chunks = []
  }
}

export type NotCaptured = Extract<OriginEnd, { type: 'not-captured' }>['reason']

/** The end of a run whose response was not captured, with the reason. */
export function notCaptured(reason: NotCaptured): OriginEnd {
  return { type: 'not-captured', reason }
}

/** The end of a run with this body. Incomplete if the body does not have the declared length. */
export function endWith(head: CapturedHead, body: Uint8Array, kind?: Reply['kind']): OriginEnd {
  const declared = declaredLength(head)
  const isWhole = declared === undefined || declared === body.byteLength
  return isWhole || !hasBody(head.status, undefined)
    ? { type: 'complete', head, body, kind }
    : notCaptured('incomplete')
}

/** Content-Length of the head. */
export function declaredLength({ headers }: CapturedHead): number | undefined {
  for (const [name, value] of headers) if (name === 'content-length') return Number(value)
  return undefined
}

/** Whether a response with this status, to a request with this method, can have a body. */
export function hasBody(status: number, method: string | undefined): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

/**
 * A copy of the chunk, because an app may reuse its buffer as soon as write() has returned. Outside
 * of Node's buffer pool: an entry must not hold a view of the pool, so it would have to copy the
 * bytes again.
 */
export function ownBytes(chunk: Uint8Array): Buffer {
  const own = Buffer.allocUnsafeSlow(chunk.byteLength)
  own.set(chunk)
  return own
}

/**
 * The bytes of a chunk passed to write() or end(): a byte array itself, or a string in a new buffer
 * outside the pool. Undefined: no chunk, or a type that Node rejects.
 */
export function bytesOf(chunk: unknown, encoding: unknown): Uint8Array | undefined {
  if (typeof chunk !== 'string') return chunk instanceof Uint8Array ? chunk : undefined
  const as = encodingOf(encoding)
  if (as !== 'utf8' && as !== 'utf-8') return Buffer.from(chunk, as)
  const own = Buffer.allocUnsafeSlow(Buffer.byteLength(chunk))
  own.write(chunk)
  return own
}

/** The whole body passed to end(). A byte array is the app's own buffer, not a copy. */
export function wholeBody([chunk, encoding]: readonly unknown[]): Uint8Array | undefined {
  const isNone = chunk === undefined || chunk === null || typeof chunk === 'function'
  return isNone ? new Uint8Array() : bytesOf(chunk, encoding)
}

function encodingOf(encoding: unknown): BufferEncoding {
  return typeof encoding === 'string' && Buffer.isEncoding(encoding) ? encoding : 'utf8'
}

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

/**
 * Cuts a byte range out of a body that arrives in chunks, for a client that does not get the whole
 * captured body. Such a client gets a part (206), other bytes (416) or none (304). The last byte is
 * delayed until the whole body has been captured. A client that has all its bytes may leave.
 * Frameworks then destroy the source of the body, and the fill would end incomplete.
 */
export class BodyCut {
  readonly end: number
  readonly #start: number
  #at = 0
  #rest: Uint8Array | undefined

  /** The client gets the bytes from `start` to before `end`, then `rest`. */
  constructor(start: number, end: number, rest?: Uint8Array) {
    this.#start = start
    this.end = end
    this.#rest = rest
  }

  /**
   * Delays only the last byte. A client that knows the length takes this byte for the end of the
   * response, and may repeat its request. Undefined: the head has no length.
   */
  static untilEnd(head: CapturedHead | undefined): BodyCut | undefined {
    const length = head && declaredLength(head)
    return length === undefined ? undefined : new BodyCut(0, length)
  }

  /** Whether the chunks that follow have no byte for this client. */
  get done(): boolean {
    return this.#at >= this.end
  }

  /** Returns the bytes of the next chunk that may be sent now. */
  take(chunk: Uint8Array): Uint8Array {
    const from = Math.min(Math.max(0, this.#start - this.#at), chunk.byteLength)
    const to = Math.min(Math.max(0, this.end - this.#at), chunk.byteLength)
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

/** A stream that is copied while its chunks go to the client. */
export interface Tee {
  /** The stream for the client, in place of the source. */
  readonly stream: Readable
  readonly ended: Promise<OriginEnd>
}

export interface TeeOptions {
  readonly head: CapturedHead
  readonly kind?: Reply['kind']
  readonly maxBytes: number
  /** Called with the stream if the source fails. Default: destroys the stream with the error. */
  readonly onError?: ((stream: Readable, error: Error) => void) | undefined
  /** Delays the last byte and the end of a complete body until its promise has settled. */
  readonly beforeEnd?: ((end: OriginEnd) => Promise<unknown>) | undefined
  /**
   * The bytes that the client gets. The copy still has the whole body. If the body is too large for
   * a copy, the source is destroyed once the client has these bytes.
   */
  readonly part?: { readonly start: number; readonly end: number } | undefined
}

/**
 * Copies the source while its chunks go to the client. Up to `maxBytes` are buffered for a slow
 * client, so that waiters for the copy do not wait for this client. A larger body is read at the
 * client's pace.
 */
export function teeStream(
  source: Readable | AsyncIterable<unknown>,
  { head, kind, maxBytes, onError, beforeEnd, part }: TeeOptions,
): Tee {
  const cut = beforeEnd ? BodyCut.untilEnd(head) : part && new BodyCut(part.start, part.end)
  const collector = new BodyCollector(maxBytes)
  let end: (end: OriginEnd) => void = () => {}
  const ended = new Promise<OriginEnd>((resolve) => {
    end = resolve
  })
  let inTurn = 0
  const stream = new PassThrough({
    readableHighWaterMark: Math.max(maxBytes, 16 * 1024),
    transform(chunk, encoding, done) {
      if (!collector.add(chunk, encoding)) end(notCaptured('too-large'))
      const own = cut === undefined ? chunk : cut.take(chunk)
      if (cut?.done && !collector.fits && beforeEnd === undefined) {
        readable.unpipe(stream)
        stream.end()
      }
      inTurn += chunk.length
      if (inTurn < BYTES_PER_TURN) return done(null, own)
      inTurn = 0
      setImmediate(done, null, own)
    },
    flush(done) {
      const whole = endWith(head, collector.take(), kind)
      end(whole)
      const finish = (): void => done(null, cut?.rest())
      const held = collector.fits ? beforeEnd?.(whole) : undefined
      if (held === undefined) finish()
      else held.then(finish, finish)
    },
  })
  const readable = source instanceof Readable ? source : Readable.from(source)
  const failed = (error?: Error): void => {
    collector.drop()
    end(notCaptured('incomplete'))
    if (error === undefined) return
    if (onError === undefined) stream.destroy(error)
    else onError(stream, error)
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
