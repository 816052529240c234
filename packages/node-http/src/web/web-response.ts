// A ServerResponse that becomes a web Response, and a web Response written to a ServerResponse.
//
// They are for frameworks whose middlewares return a Response. Captures and replies of this package
// work on it as on a response to a client. Middlewares in front of the cache get the result as a
// Response, on a hit as on a miss.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { ReadableStream as WebStream } from 'node:stream/web'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { bytesOf, hasBody } from '../response/body.ts'
import { argsBelow, groupFields, headOf, setPassedFields } from '../response/fields.ts'
import { breakOff } from '../response/write-response.ts'
import { createDetachedResponse } from '../revalidation.ts'

/** Bytes that a slow client leaves at either side of a PassThrough before write() returns false. */
const HIGH_WATER_MARK = 32 * 1024

/** A response of which at least the head was sent. */
export interface SentResponse extends CapturedHead {
  readonly body: Uint8Array | ReadableStream<Uint8Array> | null
}

export interface WebResponse {
  readonly res: ServerResponse
  /** Resolves when the head is sent. Rejects if `res` is closed before that. */
  readonly sent: Promise<SentResponse>
  /** Call this when the client left. The end of a response that was sent changes nothing. */
  leave(): void
}

/** Creates the response to `req`. */
export function createWebResponse(req: IncomingMessage): WebResponse {
  const res = createDetachedResponse(req)
  let [resolve, reject] = [(_sent: SentResponse): void => {}, (_error: Error): void => {}]
  const sent = new Promise<SentResponse>((onHead, onClose) => {
    resolve = onHead
    reject = onClose
  })
  const leave = (): void => {
    res.socket?.destroy(new Error('the client left'))
  }
  // Without this listener, leave() would cause an uncaught exception.
  res.socket?.on('error', () => {})
  let head: CapturedHead | undefined
  /** The body, if end() is not the first write. */
  let pieces: PassThrough | undefined
  const begin = (whole?: Uint8Array | null): void => {
    if (head === undefined) return
    if (whole === undefined) pieces = piecesFor(res, leave)
    const body = pieces === undefined ? (whole ?? null) : webStreamOf(pieces)
    resolve({ ...head, body: hasBody(head.status, res.req.method) ? body : null })
    head = undefined
  }
  const { writeHead, write, end, flushHeaders } = res
  Object.assign(res, {
    writeHead(...args: unknown[]): unknown {
      const isSet = setPassedFields(res, args)
      Reflect.apply(writeHead, res, isSet ? argsBelow(res, true, args) : args)
      head = headOf(res, Number(args[0]))
      return res
    },
    write(...args: unknown[]): unknown {
      const wasOpen = !res.writableEnded && !res.destroyed
      const more = Reflect.apply(write, res, args)
      if (!wasOpen) return more
      begin()
      const chunk = bytesOf(args[0], args[1])
      // A copy, because the app may reuse its buffer once write() has returned.
      return (chunk === undefined || pieces?.write(Buffer.from(chunk))) && more
    },
    end(...args: unknown[]): unknown {
      const wasOpen = !res.writableEnded && !res.destroyed
      Reflect.apply(end, res, args)
      if (!wasOpen) return res
      const last = bytesOf(args[0], args[1])
      if (head !== undefined) begin(last ?? null)
      else pieces?.end(last && Buffer.from(last))
      return res
    },
    flushHeaders(): void {
      Reflect.apply(flushHeaders, res, [])
      begin()
    },
  })
  res.once('close', () => {
    const error = res.errored ?? new Error('the response was cut off')
    reject(error)
    if (!res.writableFinished) pieces?.destroy(error)
  })
  return { res, sent, leave }
}

/** The pieces of a body. write() of the response waits for their reader. */
function piecesFor(res: ServerResponse, onCancel: () => void): PassThrough {
  const pieces = new PassThrough({ highWaterMark: HIGH_WATER_MARK })
  pieces.on('drain', () => res.emit('drain'))
  // Without this listener, an error before the first read would cause an uncaught exception.
  pieces.on('error', () => {})
  pieces.once('close', () => pieces.readableEnded || onCancel())
  return pieces
}

/**
 * Each read gets all pieces that are there as one chunk, because a web stream takes quadratic time
 * for a queue of many.
 */
function webStreamOf(pieces: PassThrough): ReadableStream<Uint8Array> {
  const reads = pieces[Symbol.asyncIterator]()
  // The generator's own would do nothing before the first read, and wait during a read.
  const end: typeof reads.return = async () => {
    pieces.destroy()
    return { done: true, value: undefined }
  }
  reads.return = end
  return WebStream.from(reads) as ReadableStream<Uint8Array>
}

/** The response as a web Response. */
export function toWebResponse({ status, headers: fields, body }: SentResponse): Response {
  const headers = new Headers()
  for (const [name, value] of fields) headers.append(name, value)
  // The server adds a Content-Length to bytes, which must not have both fields (RFC 9112 §6.2).
  if (!(body instanceof ReadableStream)) headers.delete('transfer-encoding')
  const length = body instanceof Uint8Array ? body.byteLength : undefined
  // The server computes the length. Layers in front may replace the body and keep its fields, and
  // the old length would cut off the new body.
  if (length && headers.get('content-length') === String(length)) headers.delete('content-length')
  const sent = bodyToSend(fields, body)
  return new Response(sent as Uint8Array<ArrayBuffer> | ReadableStream | null, { status, headers })
}

/** A server adds a Content-Type to a response with a body, even if the body is empty. */
function bodyToSend(fields: HeaderList, body: SentResponse['body']): SentResponse['body'] {
  const isEmpty = body instanceof Uint8Array && body.byteLength === 0
  return isEmpty && fields.some(([name]) => name === 'content-length') ? null : body
}

/**
 * Whether a web Response would change the response. It joins the lines of a field, and gets a
 * Content-Type from its server unless it has no body. With a length, there can be no trailers.
 */
export function isOnlyRaw({ headers, body }: SentResponse): boolean {
  const names = headers.map(([name]) => name).filter((name) => name !== 'set-cookie')
  const isTyped = names.includes('content-type') || bodyToSend(headers, body) === null
  return !isTyped || names.includes('trailer') || new Set(names).size < names.length
}

/** Writes the response to `res` line by line. */
export function writeRaw({ status, headers, body }: SentResponse, res: ServerResponse): void {
  for (const [name, values] of groupFields(headers)) res.setHeader(name, values)
  res.writeHead(status)
  if (body instanceof ReadableStream) {
    const source = Readable.fromWeb(body as WebStream)
    source.on('error', () => breakOff(res))
    source.pipe(res)
  } else res.end(body ?? undefined)
}

/** The server of Hono sends it too, for a body without a type. */
const DEFAULT_TYPE = 'text/plain; charset=UTF-8'

type Reader = ReadableStreamDefaultReader<Uint8Array | string>
type Read = Awaited<ReturnType<Reader['read']>>

/**
 * Writes the head and the body. A body of one chunk that is there at once is written with end(), so
 * that a capture has the whole body when it judges the head. If the body breaks off, so does `res`.
 */
export async function writeWebResponse(response: Response, res: ServerResponse): Promise<void> {
  const { body } = response
  if (res.headersSent) {
    body?.cancel().catch(() => {})
    // A handler that has failed in the middle of its own response will not end it.
    if (!res.writableEnded) res.destroy()
    return
  }
  setHead(response, res)
  if (body === null) {
    res.end()
    return
  }
  const reader: Reader = body.getReader()
  const reads = [reader.read()]
  try {
    const first = await atOnce(reads[0])
    if (first?.done) {
      res.end('')
      return
    }
    const second = first && (await atOnce(reads[reads.push(reader.read()) - 1]))
    if (second?.done) {
      res.end(first?.value)
      return
    }
    if (first === undefined) res.flushHeaders()
  } catch {
    // The stream below gets the same error.
  }
  const source = readableOf(reader, reads)
  source.on('error', (error) => res.destroy(error))
  source.pipe(res)
  // A capture may have replaced `destroy`, for waiters that read the source.
  if (res.destroyed) source.destroy()
  else res.once('close', () => source.destroy())
}

function setHead({ status, headers, body }: Response, res: ServerResponse): void {
  res.statusCode = status
  for (const [name, value] of headers) res.setHeader(name, linesOf(headers, name, value))
  if (body !== null && !res.hasHeader('content-type')) res.setHeader('content-type', DEFAULT_TYPE)
}

/** A web Headers joins the lines of all fields except Set-Cookie with `, `. */
function linesOf(headers: Headers, name: string, value: string): string | string[] {
  if (name === 'set-cookie') return headers.getSetCookie()
  // The tags of this field are separated by spaces, so a comma would be a part of a tag.
  return name === 'surrogate-key' ? value.split(', ') : value
}

/** The result of the read, if it is there within this turn of the event loop. */
function atOnce(read: Promise<Read> | undefined): Promise<Read | undefined> {
  return Promise.race([read, new Promise<undefined>((resolve) => setImmediate(resolve, undefined))])
}

/** `reads` are the reads that have begun. */
function readableOf(reader: Reader, reads: Array<Promise<Read>>): Readable {
  return new Readable({
    read() {
      const reading = reads.shift() ?? reader.read()
      reading.then(
        ({ done, value }) => this.push(done ? null : value),
        (error) => this.destroy(error),
      )
    },
    destroy(error, done) {
      reader.cancel(error).catch(() => {})
      done(error)
    },
  })
}
