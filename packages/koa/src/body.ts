// ctx.body: reads and captures what Koa will send for it, and puts replies of core in its place.
// Koa sends it after the outer middlewares have returned.

import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import type {
  CapturedHead,
  HeaderList,
  OriginEnd,
  OriginObserver,
  Reply,
} from '@stampede/core/adapter'
import {
  editFields,
  endWith,
  fieldsOf,
  isSendable,
  type OuterFields,
  restoreFields,
  setReply,
  teeStream,
} from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { isKoa3 } from './context.ts'

type Sent = Extract<ReturnType<OriginObserver['onHead']>, { action: 'send' }>
type PartOfBody = Extract<Sent['instead'], { start: number }>

/** Either the bytes of a body, or the stream that has them. */
export interface KoaBody {
  /** In a buffer of their own, unless the handler set a Buffer. */
  readonly bytes?: Buffer
  readonly source?: Readable | AsyncIterable<unknown>
  /** The kind of value that the handler set, if it was not bytes. */
  readonly as?: Reply['kind']
}

/** The body in ctx after `await next()`. Undefined: Koa will fail to send it. */
function readKoaBody(ctx: Context): KoaBody | undefined {
  try {
    const body: unknown = ctx.body
    if (WITHOUT_BODY.has(ctx.status)) return { bytes: EMPTY }
    if (body === null || body === undefined) return statusBody(ctx)
    if (typeof body === 'string') return { bytes: bytesOf(body), as: 'string' }
    if (Buffer.isBuffer(body)) return { bytes: body }
    // Also a stream of the package readable-stream.
    if (typeof body === 'object' && 'read' in body && 'pipe' in body)
      return { source: body as Readable, as: 'stream' }
    const source = isKoa3(ctx) ? webStreamOf(body) : undefined
    if (source !== undefined) return source === null ? { bytes: EMPTY } : { source, as: 'stream' }
    const json: string | undefined = JSON.stringify(body)
    return json === undefined ? undefined : { bytes: bytesOf(json), as: 'json' }
  } catch {
    // JSON.stringify or a getter threw. Koa will get the same error, and respond with it.
    return undefined
  }
}

/** Whether Koa would send these bytes for ctx.body. */
export function hasBytes(ctx: Context, bytes: Uint8Array): boolean {
  const now = readKoaBody(ctx)?.bytes
  return now === bytes || now?.equals(bytes) === true
}

/** Without a body, Koa sends the message of the status. Over HTTP/2 it sends the number. */
function statusBody(ctx: Context): KoaBody {
  if (Reflect.get(ctx.response, '_explicitNullBody') === true) return { bytes: EMPTY, as: 'null' }
  const bytes = bytesOf((ctx.req.httpVersionMajor < 2 && ctx.message) || String(ctx.status))
  return { bytes, as: 'status' }
}

/** Outside of Node's buffer pool: an entry would have to copy a view of the pool. */
function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  bytes.write(text)
  return bytes
}

/** The stream of a body that has one. `null`: the body of a Response is empty. */
function webStreamOf(body: unknown): ReadableStream | null | undefined {
  if (body instanceof Response) return body.body
  if (body instanceof Blob) return body.stream()
  return body instanceof ReadableStream ? body : undefined
}

/** Statuses for which Koa sends neither ctx.body nor its type. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304])

/** The Content-Type that Koa sets for the message of the status. */
const STATUS_TYPE = 'text/plain; charset=utf-8'

/** The kind to store with a body. Undefined if a hit cannot be converted to that kind again. */
export function keptKind({ as, bytes = EMPTY }: KoaBody): Reply['kind'] {
  return as === 'json' && 'rawJSON' in JSON && !isStableJson(bytes.toString()) ? undefined : as
}

/**
 * Whether parsing and writing the JSON again gives the same text. Only JSON.rawJSON() of Node 22
 * can write other text, such as numbers with too many digits for JavaScript.
 */
export function isStableJson(text: string): boolean {
  return JSON.stringify(parsed(text)) === text
}

/**
 * Returns a value for ctx.body of the kind that the handler set. Each hit gets a new value, because
 * a layer in front may change it. If the bytes from the store are not of that kind, the value is a
 * Buffer.
 */
export function bodyOfKind(bytes: Uint8Array, kind: Reply['kind']): unknown {
  if (kind === 'stream') return Readable.from(Buffer.from(bytes), { objectMode: false })
  if (kind === 'null' && bytes.byteLength === 0) return null
  const { buffer, byteOffset, byteLength } = bytes
  const isText = kind !== undefined && isUtf8(bytes)
  const text = isText ? Buffer.from(buffer, byteOffset, byteLength).toString() : undefined
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

/** Replaces ctx.body. Keeps the Content-Type, which Koa would guess from the new value. */
export function replaceBody({ res, response }: Context, body: unknown): void {
  const type = res.getHeader('Content-Type')
  response.body = body
  if (type === undefined) res.removeHeader('Content-Type')
  // Setting the same value again would change the case of the name.
  else if (res.getHeader('Content-Type') !== type) res.setHeader('Content-Type', type)
}

/** A response that the handler left in ctx. */
interface KoaResponse {
  /** All fields that Koa will send. */
  readonly headers: HeaderList
  /** The head that a hit or a repeat gets. */
  readonly head: CapturedHead
  /** Undefined: Koa will fail to send it. */
  readonly body: KoaBody | undefined
}

/** Reads the response in ctx. Empty if the app sends it itself, past Koa. */
export function readResponse(ctx: Context, outer: OuterFields): Partial<KoaResponse> {
  if (ctx.respond === false || ctx.headerSent || ctx.res.writableEnded) return {}
  const { status } = ctx
  const body = readKoaBody(ctx)
  const set = fieldsOf(ctx.res)
  // Koa sets the type of a message, and removes that of a response without a body.
  const isMessage = body?.as === 'status'
  const isKoas = isMessage || WITHOUT_BODY.has(status)
  const others: HeaderList = isKoas ? set.filter(([name]) => name !== 'content-type') : set
  const headers: HeaderList = isMessage ? [...others, ['content-type', STATUS_TYPE]] : others
  return { headers, head: outer.storedHead(status, headers), body }
}

type Tee = Parameters<typeof teeStream>[1]

/** The capture of a body that goes to the client. A promise only if the body is a stream. */
export function captureBody(ctx: Context, body: KoaBody, tee: Tee): OriginEnd | Promise<OriginEnd> {
  const { bytes = EMPTY, source, as } = body
  const { head, maxBytes, kind } = tee
  if (source !== undefined) {
    const length = ctx.res.getHeader('Content-Length')
    // In Koa 2, the new stream ends without an error, because Koa has already reported that of the
    // source.
    const onError = isKoa3(ctx) ? undefined : (stream: Readable) => void stream.destroy()
    const { stream, ended } = teeStream(source, { ...tee, onError })
    replaceBody(ctx, stream)
    if (length !== undefined) ctx.res.setHeader('Content-Length', length)
    return ended
  }
  if (bytes.byteLength > maxBytes) return { type: 'not-captured', reason: 'too-large' }
  // A copy, because the app may change its buffer later.
  const own = as === undefined ? Buffer.from(bytes) : bytes
  // Koa replaces the Content-Length that the app has set for JSON, or for the text of a status.
  const isMeasured = as === 'json' || as === 'status'
  return isMeasured ? { type: 'complete', head, body: own, kind } : endWith(head, own, kind)
}

/** Replaces the body by a part of it (206) for the client of the run. A capture cuts a stream. */
export function sendPart(ctx: Context, { bytes, as }: KoaBody, part: PartOfBody): void {
  ctx.status = part.status
  if (bytes !== undefined) {
    if (as === 'status') ctx.res.setHeader('Content-Type', STATUS_TYPE)
    replaceBody(ctx, Buffer.from(bytes.subarray(part.start, part.end)))
  }
  editFields(ctx.res, part.fields, [])
}

/**
 * Puts a reply into ctx, with a new value of the kind that the handler set. If the reply cannot be
 * sent, changes nothing and returns false. `outer` are the fields in front, if the reply replaces a
 * response of the handler. It uses ctx.response, because each property of ctx is a slower delegate.
 */
export function replyWith(ctx: Context, reply: Reply, outer?: OuterFields): boolean {
  const { res, response } = ctx
  // Koa 2 has responded with an error already if the source of the body failed.
  if (res.headersSent) return true
  if (reply.fields === undefined && !isSendable(reply)) return false
  if (outer !== undefined) restoreFields(res, outer.list)
  const { status, body = EMPTY, kind } = reply
  response.status = status
  const isBare = status === 204 || status === 304
  const hasBytes = !isBare && (reply.body !== undefined || ctx.method !== 'HEAD')
  // Koa sends this body for the status, so a layer in front finds none.
  const isUnset = kind === 'status' && ctx.body === undefined && statusBody(ctx).bytes?.equals(body)
  if (isBare) response.body = null
  else if (hasBytes && !isUnset) {
    replaceBody(ctx, bodyOfKind(body, kind))
    // Koa sets 204 with a body of `null`.
    response.status = status
  }
  setReply(res, reply)
  if (isUnset) response.remove('Content-Type')
  // A layer may change the object in place, so the stored length may be wrong. Koa sets the length.
  if (isUnset || kind === 'json') response.remove('Content-Length')
  return true
}

const EMPTY = Buffer.alloc(0)
