// ctx.body: the bytes or the stream that Koa will send for it, and replies of core in its place.
// Koa sends it after the outer middlewares have returned.

import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import {
  type BodyKind,
  type HeaderList,
  OWN_FIELDS,
  type ReadyReply,
  type Reply,
} from '@stampede/core/adapter'
import {
  applyFields,
  fieldsOf,
  forbidTransform,
  framedHeaders,
  hasBody,
  hasRepeats,
  isSendable,
  isWrapped,
  type OuterFields,
  replyOf,
  restoreFields,
} from '@stampede/node-http/adapter'
import type { Context, Middleware } from 'koa'

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

/**
 * Whether this is Koa 3, which sends web streams, Blobs and Responses, and pipes with pipeline().
 * Koa 2 sends them as JSON, and pipes with pipe().
 */
export function isKoa3(ctx: Context): boolean {
  return 'back' in ctx.response
}

/** The body in ctx after `await next()`. Undefined: Koa will fail to send it. */
export function readKoaBody(ctx: Context): KoaBody | undefined {
  const body: unknown = ctx.body
  if ([204, 205, 304].includes(ctx.status)) return bytesOf('')
  if (body === null || body === undefined) return statusBody(ctx)
  if (typeof body === 'string') return bytesOf(body, 'string')
  if (Buffer.isBuffer(body)) return { kind: 'bytes', bytes: body }
  if (isReadable(body)) return { kind: 'stream', source: body }
  if (isKoa3(ctx)) {
    if (body instanceof Blob) return { kind: 'blob', blob: body }
    if (body instanceof ReadableStream) return { kind: 'stream', source: body }
    if (body instanceof Response) {
      return body.body ? { kind: 'stream', source: body.body } : bytesOf('')
    }
  }
  try {
    const json: string | undefined = JSON.stringify(body)
    return json === undefined ? undefined : bytesOf(json, 'json')
  } catch {
    // Koa will get the same error from JSON.stringify, and respond with it.
    return undefined
  }
}

/** Koa sends the message of the status if the app has set no body, unless the body is `null`. */
function statusBody(ctx: Context): KoaBody {
  if (Reflect.get(ctx.response, '_explicitNullBody') === true) return bytesOf('', 'null')
  const bytes = Buffer.from(ctx.message || String(ctx.status))
  return { kind: 'bytes', bytes, type: 'text/plain; charset=utf-8' }
}

function bytesOf(text: string, as?: BodyKind): KoaBody {
  const bytes = Buffer.from(text)
  return as === undefined ? { kind: 'bytes', bytes } : { kind: 'bytes', bytes, as }
}

/** Whether the body is a readable stream, also one of the package readable-stream. */
function isReadable(body: unknown): body is Readable {
  if (body instanceof Readable) return true
  return typeof body === 'object' && body !== null && 'read' in body && 'pipe' in body
}

/** The fields that Koa will send, including the Content-Type that it sets for a body. */
export function fieldsFor(ctx: Context, body: KoaBody | undefined): HeaderList {
  const fields = fieldsOf(ctx.res.getHeaders())
  if (body?.kind !== 'bytes' || body.type === undefined) return fields
  return [...fields.filter(([name]) => name !== 'content-type'), ['content-type', body.type]]
}

/** The kind to store with a body. Undefined if a hit cannot be converted to that kind again. */
export function keptKind(body: KoaBody | undefined): BodyKind | undefined {
  if (body?.kind !== 'bytes') return body?.kind === 'stream' ? 'stream' : undefined
  return body.as === 'json' && !isStableJson(body.bytes) ? undefined : body.as
}

/**
 * Whether parsing and writing the JSON again gives the same bytes. JSON.rawJSON() and numbers with
 * too many digits for JavaScript give others.
 */
export function isStableJson(bytes: Uint8Array): boolean {
  const text = bufferOf(bytes).toString()
  const value = parsed(text)
  return value !== undefined && JSON.stringify(value) === text
}

/**
 * Returns a value for ctx.body of the kind that the handler set. Each hit gets a new value, because
 * a layer in front may change it. If the bytes from the store are not of that kind, the value is a
 * Buffer.
 */
export function bodyOfKind(bytes: Uint8Array, kind: BodyKind | undefined): unknown {
  if (kind === 'stream') return streamOf(Buffer.from(bytes))
  const text = kind !== undefined && isUtf8(bytes) ? bufferOf(bytes).toString() : undefined
  if (kind === 'string' && text !== undefined) return text
  const value = kind === 'json' && text !== undefined ? parsed(text) : undefined
  // A string or `null` cannot be ctx.body: Koa would send it without quotes, or no body.
  const isSent = typeof value !== 'string' && value !== null && value !== undefined
  return isSent ? value : Buffer.from(bytes)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function streamOf(chunk: Buffer): Readable {
  return new Readable({
    read() {
      this.push(chunk)
      this.push(null)
    },
  })
}

function bufferOf(bytes: Uint8Array): Buffer {
  if (Buffer.isBuffer(bytes)) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/**
 * Whether a layer in front can read or change the ctx.body that `middleware` sets: an earlier
 * middleware, or a wrapper of the response.
 */
export function isSeen(ctx: Context, middleware: Middleware): boolean {
  return ctx.app.middleware[0] !== middleware || isWrapped(ctx.res)
}

/** Replaces ctx.body. Keeps the Content-Type, which Koa would guess from the new value. */
export function replaceBody({ res, response }: Context, body: unknown): void {
  const type = res.getHeader('Content-Type')
  response.body = body
  if (type === undefined) res.removeHeader('Content-Type')
  // Setting the same value again would change the case of the name.
  else if (res.getHeader('Content-Type') !== type) res.setHeader('Content-Type', type)
}

/**
 * Puts a reply into ctx. If the reply cannot be sent, changes nothing and returns false. If `seen`,
 * a layer in front can read ctx.body, so ctx.body is a new value of the kind that the handler set.
 * `outer` are the fields in front, if the reply replaces a response of the handler.
 */
export function replyWith(ctx: Context, reply: Reply, seen = true, outer?: OuterFields): boolean {
  // Koa 2 has responded with an error already if the source of the body failed.
  if (ctx.headerSent) return true
  if (!isSendable(reply)) return false
  if (outer !== undefined) restoreFields(ctx.res, outer.list)
  const { status, body = EMPTY, kind } = reply
  ctx.status = status
  for (const name of OWN_FIELDS) ctx.remove(name)
  if (!hasBody(status, undefined)) ctx.body = null
  else if (reply.body !== undefined || ctx.method !== 'HEAD') {
    replaceBody(ctx, storedValue(body, kind, seen))
    // Koa sets 204 with a body of `null`.
    ctx.status = status
  }
  applyFields(ctx.res, framedHeaders(reply, ctx.method))
  // A layer may change the object in place, so the stored length may be wrong. Koa sets the length.
  if (seen && kind === 'json') ctx.remove('Content-Length')
  if (reply.part) forbidTransform(ctx.res)
  return true
}

/**
 * Does the same as `replyWith` for a hit, but faster if no outer layer has set a field, because
 * then nothing has to be merged. It uses ctx.response, because each property of ctx is a slower
 * delegate.
 */
export function replyAtOnce(ctx: Context, ready: ReadyReply, seen: boolean): boolean {
  const { res, response } = ctx
  const { status, fields, body, kind } = ready
  const isPlain = !res.headersSent && res.getHeaderNames().length === 0 && !hasRepeats(fields)
  if (!isPlain || !hasBody(status, undefined)) return replyWith(ctx, replyOf(ready), seen)
  response.status = status
  if (seen) {
    response.body = storedValue(body, kind, true)
    response.status = status
  }
  let typed = false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    if (name === 'content-type') typed = true
    // Setting the body also sets its length.
    if (name !== 'content-length') res.setHeader(name, fields[i + 1] as string)
  }
  // Koa guesses no type for bytes that have one.
  if (!seen) response.body = bufferOf(body)
  else if (kind === 'stream') res.setHeader('content-length', body.byteLength)
  if (!typed) response.remove('content-type')
  return true
}

const EMPTY = Buffer.alloc(0)

function storedValue(bytes: Uint8Array, kind: BodyKind | undefined, seen: boolean): unknown {
  if (!seen) return bufferOf(bytes)
  return kind === 'null' && bytes.byteLength === 0 ? null : bodyOfKind(bytes, kind)
}
