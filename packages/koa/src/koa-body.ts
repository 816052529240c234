// The bytes or the stream that Koa will send for ctx.body, determined before Koa sends them. The
// modules koa-capture.ts and koa-attempt.ts use it.

import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import type { BodyKind, CapturedHead, HeaderList, OriginEnd } from '@stampede/core/adapter'
import { fieldsOf } from '@stampede/node-http/adapter'
import type { Context } from 'koa'

export type KoaBody =
  /**
   * The whole body. `as` is the kind of value that the handler set, if it was not bytes. `type` is
   * the Content-Type that Koa's respond() will set by itself.
   */
  | {
      readonly kind: 'bytes'
      readonly bytes: Buffer
      readonly as?: BodyKind
      readonly type?: string
    }
  | { readonly kind: 'stream'; readonly source: Readable | AsyncIterable<unknown> }
  /** A Blob can be read twice, so ctx.body stays as it is. */
  | { readonly kind: 'blob'; readonly blob: Blob }
  | { readonly kind: 'unknown' }

/** A body whose bytes can be read. */
export type SendableBody = Exclude<KoaBody, { kind: 'unknown' }>

/**
 * Whether this is Koa 3, which sends web streams, Blobs and Responses, and pipes with pipeline().
 * Koa 2 sends them as JSON, and pipes with pipe().
 */
export function isKoa3(ctx: Context): boolean {
  return 'back' in ctx.response
}

/**
 * Returns the function to call when the source of a replaced ctx.body fails. In Koa 2 it destroys
 * the new stream without an error, because Koa has already reported the error of the source.
 */
export function onErrorOf(ctx: Context): ((stream: Readable) => void) | undefined {
  return isKoa3(ctx) ? undefined : (stream) => void stream.destroy()
}

/** The body as ctx holds it after `await next()`. */
export function readKoaBody(ctx: Context): KoaBody {
  const body: unknown = ctx.body
  if ([204, 205, 304].includes(ctx.status)) return bytes('')
  if (body === null || body === undefined) return statusBody(ctx)
  if (typeof body === 'string') return { ...bytes(body), as: 'string' }
  if (Buffer.isBuffer(body)) return bytes(body)
  if (isReadable(body)) return { kind: 'stream', source: body }
  if (isKoa3(ctx)) {
    if (body instanceof Blob) return { kind: 'blob', blob: body }
    if (body instanceof ReadableStream) return { kind: 'stream', source: body }
    if (body instanceof Response) {
      return body.body ? { kind: 'stream', source: body.body } : bytes('')
    }
  }
  return jsonBody(body)
}

/** Koa sends the message of the status if the app has set no body, unless the body is `null`. */
function statusBody(ctx: Context): KoaBody {
  if (Reflect.get(ctx.response, '_explicitNullBody') === true) return { ...bytes(''), as: 'null' }
  const text = ctx.message || String(ctx.status)
  return { ...bytes(text), type: 'text/plain; charset=utf-8' }
}

function jsonBody(body: unknown): KoaBody {
  try {
    const json: string | undefined = JSON.stringify(body)
    return json === undefined ? { kind: 'unknown' } : { ...bytes(json), as: 'json' }
  } catch {
    // Koa will get the same error from JSON.stringify, and respond with it.
    return { kind: 'unknown' }
  }
}

function bytes(body: string | Buffer): { kind: 'bytes'; bytes: Buffer } {
  return { kind: 'bytes', bytes: typeof body === 'string' ? Buffer.from(body) : body }
}

/** Whether the body is a readable stream, also one of the package readable-stream. */
function isReadable(body: unknown): body is Readable {
  if (body instanceof Readable) return true
  return typeof body === 'object' && body !== null && 'read' in body && 'pipe' in body
}

/**
 * Returns a value for ctx.body of the kind that the handler set. Each hit gets a new value, because
 * a layer in front may change it. If the bytes from the store are not of that kind, the value is a
 * Buffer.
 */
export function bodyOfKind(bytes: Uint8Array, kind: BodyKind | undefined): unknown {
  if (kind === 'stream') return streamOf(Buffer.from(bytes))
  const text = kind !== undefined && isUtf8(bytes) ? textOf(bytes) : undefined
  if (kind === 'string' && text !== undefined) return text
  const value = kind === 'json' && text !== undefined ? parsed(text) : undefined
  // A string or `null` cannot be ctx.body: Koa would send it without quotes, or no body.
  const isSent = typeof value !== 'string' && value !== null && value !== undefined
  return isSent ? value : Buffer.from(bytes)
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString()
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The kind to store with a body. Undefined if a hit cannot be converted to that kind again. */
export function keptKind(body: KoaBody): BodyKind | undefined {
  if (body.kind === 'stream') return 'stream'
  if (body.kind !== 'bytes') return undefined
  return body.as === 'json' && !isStableJson(body.bytes) ? undefined : body.as
}

/**
 * Whether parsing and writing the JSON again gives the same bytes. JSON.rawJSON() and numbers with
 * too many digits for JavaScript give others.
 */
export function isStableJson(bytes: Uint8Array): boolean {
  const text = textOf(bytes)
  const value = parsed(text)
  return value !== undefined && JSON.stringify(value) === text
}

function streamOf(chunk: Buffer): Readable {
  return new Readable({
    read() {
      this.push(chunk)
      this.push(null)
    },
  })
}

export const DECLINED: OriginEnd = { type: 'not-captured', reason: 'declined' }
export const INCOMPLETE: OriginEnd = { type: 'not-captured', reason: 'incomplete' }

/**
 * The end of a run with this body. It is incomplete if the body does not have the length in
 * Content-Length.
 */
export function whole(head: CapturedHead, body: Uint8Array): OriginEnd {
  const declared = head.headers.find(([name]) => name === 'content-length')?.[1]
  const cut = declared !== undefined && Number(declared) !== body.byteLength
  return cut && head.status !== 204 && head.status !== 304
    ? INCOMPLETE
    : { type: 'complete', head, body }
}

/** Adds the kind of the body to a complete end. */
export function ofKind(
  end: Promise<OriginEnd> | OriginEnd,
  kind: BodyKind | undefined,
): Promise<OriginEnd> | OriginEnd {
  if (kind === undefined) return end
  if (end instanceof Promise) return end.then((later) => ofKind(later, kind))
  return end.type === 'complete' ? { ...end, kind } : end
}

/** The fields that Koa will send, including the Content-Type that it sets for a body. */
export function fieldsFor(ctx: Context, body: KoaBody): HeaderList {
  const fields = fieldsOf(ctx.res.getHeaders())
  if (body.kind !== 'bytes' || body.type === undefined) return fields
  return [...fields.filter(([name]) => name !== 'content-type'), ['content-type', body.type]]
}
