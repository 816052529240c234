// A ServerResponse that becomes a web Response, for frameworks whose middlewares return a Response.
// Captures and replies of this package work on it as on a response to a client. Middlewares in
// front of the cache get the result as a Response, on a hit as on a miss.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import type { CapturedHead } from '@stampede/core/adapter'
import { chunkBytes } from '../response/body.ts'
import { groupFields } from '../response/header-fields.ts'
import { readWriteHead } from '../response/write-head.ts'
import { hasBody } from '../response/write-response.ts'
import { createDetachedResponse } from '../revalidation/detached-exchange.ts'

/** Bytes that are buffered for a slow client before write() returns false. */
const HIGH_WATER_MARK = 64 * 1024

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
  const body = new Body(res, leave)
  let head: CapturedHead | undefined
  const begin = (own: SentResponse['body']): void => {
    if (head === undefined) return
    resolve({ ...head, body: hasBody(head.status, res.req.method) ? own : null })
    head = undefined
  }
  const { writeHead, write, end, flushHeaders } = res
  Object.assign(res, {
    writeHead(...args: unknown[]): unknown {
      const written = readWriteHead(res, args)
      Reflect.apply(writeHead, res, args)
      head = written
      return res
    },
    write(...args: unknown[]): unknown {
      const wasOpen = !res.writableEnded && !res.destroyed
      const more = Reflect.apply(write, res, args)
      if (!wasOpen) return more
      begin(body.stream)
      return body.add(chunkBytes(args[0], args[1])) && more
    },
    end(...args: unknown[]): unknown {
      const wasOpen = !res.writableEnded && !res.destroyed
      Reflect.apply(end, res, args)
      if (!wasOpen) return res
      const last = chunkBytes(args[0], args[1])
      if (head !== undefined) begin(last ?? null)
      else body.end(last)
      return res
    },
    flushHeaders(): void {
      Reflect.apply(flushHeaders, res, [])
      begin(body.stream)
    },
  })
  res.once('close', () => {
    const error = res.errored ?? new Error('the response was cut off')
    reject(error)
    if (!res.writableFinished) body.breakOff(error)
  })
  return { res, sent, leave }
}

/** The body as a web stream. write() of the response waits for its reader. */
class Body {
  readonly stream: ReadableStream<Uint8Array>
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined

  constructor(res: ServerResponse, onCancel: () => void) {
    const size = (chunk: Uint8Array): number => chunk.byteLength
    const source = {
      start: (controller: ReadableStreamDefaultController<Uint8Array>) => {
        this.#controller = controller
      },
      pull: () => void res.emit('drain'),
      cancel: () => {
        this.#controller = undefined
        onCancel()
      },
    }
    this.stream = new ReadableStream(source, { highWaterMark: HIGH_WATER_MARK, size })
  }

  /** Returns whether the reader keeps up. */
  add(chunk: Uint8Array | undefined): boolean {
    // A copy, because the app may reuse its buffer once write() has returned.
    if (chunk && chunk.byteLength > 0) this.#controller?.enqueue(Buffer.from(chunk))
    return (this.#controller?.desiredSize ?? 1) > 0
  }

  end(last: Uint8Array | undefined): void {
    this.add(last)
    this.#controller?.close()
    this.#controller = undefined
  }

  breakOff(error: Error): void {
    this.#controller?.error(error)
    this.#controller = undefined
  }
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
  // A server adds a Content-Type to a response with a body, even if the body is empty.
  const sent = length === 0 && headers.has('content-length') ? null : body
  return new Response(sent as Uint8Array<ArrayBuffer> | ReadableStream | null, { status, headers })
}

/**
 * Whether a web Response would change the response. It joins the lines of a field, and gets a
 * Content-Type from its server. With a length, there can be no trailers.
 */
export function isOnlyRaw({ headers, body }: SentResponse): boolean {
  const names = headers.map(([name]) => name).filter((name) => name !== 'set-cookie')
  const isTyped = body === null || names.includes('content-type')
  return !isTyped || names.includes('trailer') || new Set(names).size < names.length
}

/** Writes the response to `res` line by line. */
export function writeRaw({ status, headers, body }: SentResponse, res: ServerResponse): void {
  for (const [name, values] of groupFields(headers)) res.setHeader(name, values)
  res.writeHead(status)
  if (body instanceof ReadableStream) {
    const source = Readable.fromWeb(body as WebStream)
    source.on('error', () => res.destroy())
    source.pipe(res)
  } else res.end(body ?? undefined)
}
