// What Koa will make of ctx.body once all middlewares have returned, found out one layer earlier: the
// bytes, or the stream they will come from.

import { Readable } from 'node:stream'
import type { Context } from 'koa'

export type KoaBody =
  /** At hand. `type` is the Content-Type that Koa's respond() will set itself. */
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly type?: string }
  | { readonly kind: 'stream'; readonly source: Readable | AsyncIterable<unknown> }
  /** Can be read twice, so that the client's answer is left alone. */
  | { readonly kind: 'blob'; readonly blob: Blob }
  | { readonly kind: 'unknown' }

/** Koa 3 sends web bodies and pipes with pipeline(); Koa 2 sends them as JSON and pipes with pipe(). */
export function isKoa3(ctx: Context): boolean {
  return 'back' in ctx.response
}

/** The body as ctx holds it after `await next()`. */
export function readKoaBody(ctx: Context): KoaBody {
  const body: unknown = ctx.body
  if ([204, 205, 304].includes(ctx.status)) return bytes('')
  if (body === null || body === undefined) return statusBody(ctx)
  if (typeof body === 'string' || Buffer.isBuffer(body)) return bytes(body)
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

/** A status without a body is sent as its message, unless the body was set to null. */
function statusBody(ctx: Context): KoaBody {
  if (Reflect.get(ctx.response, '_explicitNullBody') === true) return bytes('')
  const text = ctx.message || String(ctx.status)
  return { ...bytes(text), type: 'text/plain; charset=utf-8' }
}

function jsonBody(body: unknown): KoaBody {
  try {
    const json: string | undefined = JSON.stringify(body)
    return json === undefined ? { kind: 'unknown' } : bytes(json)
  } catch {
    // Koa will meet the same error and answer with it.
    return { kind: 'unknown' }
  }
}

function bytes(body: string | Buffer): { kind: 'bytes'; bytes: Uint8Array } {
  return { kind: 'bytes', bytes: typeof body === 'string' ? Buffer.from(body) : body }
}

/** Also streams of other copies of readable-stream. */
function isReadable(body: unknown): body is Readable {
  if (body instanceof Readable) return true
  return typeof body === 'object' && body !== null && 'read' in body && 'pipe' in body
}
