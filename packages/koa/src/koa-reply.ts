// Putting a reply of core into a Koa context. Koa writes it after the outer middlewares have
// returned.

import {
  type BodyKind,
  type HeaderList,
  type LiveReply,
  OWN_FIELDS,
  type ReadyReply,
  type Reply,
} from '@stampede/core/adapter'
import {
  applyFields,
  forbidTransform,
  framedHeaders,
  hasBody,
  hasLeft,
  hasRepeats,
  isSendable,
  isWrapped,
  liveHeaders,
  liveStream,
  replyOf,
  restoreFields,
} from '@stampede/node-http/adapter'
import type { Context, Middleware } from 'koa'
import { bodyOfKind } from './koa-body.ts'
import { setLazyBody } from './lazy-body.ts'

/**
 * Whether a layer in front can read or change the ctx.body that `middleware` sets: an earlier
 * middleware, or a wrapper of the response.
 */
export function isSeen(ctx: Context, middleware: Middleware): boolean {
  return ctx.app.middleware[0] !== middleware || isWrapped(ctx.res)
}

/**
 * Returns false, and changes nothing, if the reply cannot be sent. `seen`: a layer in front sees
 * the body, so it is a new value of the kind that the handler set.
 */
export function replyWith(ctx: Context, reply: Reply, seen = true): boolean {
  if (ctx.headerSent) return true
  if (!isSendable(reply)) return false
  ctx.status = reply.status
  for (const name of OWN_FIELDS) ctx.remove(name)
  if (!hasBody(reply.status, undefined)) {
    ctx.body = null
  } else if (reply.body !== undefined || ctx.method !== 'HEAD') {
    const typed = ctx.res.hasHeader('Content-Type')
    setBody(ctx, reply.body, reply.kind, seen)
    // Removes Koa's guess. The stored type comes with the headers.
    if (!typed) ctx.remove('Content-Type')
  }
  applyFields(ctx.res, framedHeaders(reply, ctx.method))
  // A layer may change the object in place, so the stored length may be wrong. Koa measures JSON.
  if (seen && reply.kind === 'json') ctx.remove('Content-Length')
  if (reply.part) forbidTransform(ctx.res)
  return true
}

/** As `replyWith`. Where no layer further out has set a field, none is merged. Straight to Koa's response: a context passes on by name. */
export function replyAtOnce(ctx: Context, ready: ReadyReply, seen: boolean): boolean {
  const { res, response } = ctx
  const { status, fields, body, kind } = ready
  const isPlain = !res.headersSent && res.getHeaderNames().length === 0 && !hasRepeats(fields)
  if (!isPlain || !hasBody(status, undefined)) return replyWith(ctx, replyOf(ready), seen)
  let typed = false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    if (name === 'content-type') typed = true
    // The length is set with the body.
    if (name !== 'content-length') res.setHeader(name, fields[i + 1] as string)
  }
  response.status = status
  setBody(ctx, body, kind, seen)
  // Koa sets no length for a stream. It measures JSON, which a layer may change in place.
  if (seen && kind === 'stream') res.setHeader('content-length', body.byteLength)
  else if (seen && kind === 'json') response.remove('content-length')
  // Removes Koa's guess.
  if (!typed) response.remove('content-type')
  return true
}

/** In the place of what the app has put into ctx; `outer` are the fields from before. */
export function replaceWith(ctx: Context, reply: Reply, outer: HeaderList, seen: boolean): boolean {
  // Koa 2 answers by itself when the source of a body breaks.
  if (ctx.headerSent) return true
  restoreFields(ctx.res, outer)
  return replyWith(ctx, reply, seen)
}

/** As `replyWith`, with a body that is still coming. */
export function replyLive(ctx: Context, reply: LiveReply, seen: boolean): boolean {
  const headers = liveHeaders(ctx.res, reply)
  if (headers === undefined) return ctx.headerSent || hasLeft(ctx.res)
  const typed = ctx.res.hasHeader('Content-Type')
  ctx.status = reply.status
  ctx.body = liveStream(ctx.res, reply.body, seen)
  // What Koa guesses for a stream.
  if (!typed) ctx.remove('Content-Type')
  applyFields(ctx.res, headers)
  return true
}

function setBody(
  ctx: Context,
  body: Uint8Array | undefined,
  kind: BodyKind | undefined,
  seen: boolean,
): void {
  const bytes = body === undefined ? Buffer.alloc(0) : bufferOf(body)
  if (!seen) ctx.response.body = bytes
  else if (kind === 'stream') ctx.response.body = bodyOfKind(bytes, kind)
  else setLazyBody(ctx, bytes, kind)
}

function bufferOf(bytes: Uint8Array): Buffer {
  if (Buffer.isBuffer(bytes)) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
