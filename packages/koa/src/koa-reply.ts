// Replies of core in a Koa context: status, fields and body. Koa writes them after the outer
// middlewares have returned.

import { type BodyKind, OWN_FIELDS, type ReadyReply, type Reply } from '@stampede/core/adapter'
import {
  applyFields,
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
 * Puts a reply into ctx. If the reply cannot be sent, changes nothing and returns false. If `seen`,
 * a layer in front can read ctx.body, so ctx.body is a new value of the kind that the handler set.
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
    // Removes the Content-Type that Koa guesses. The stored type comes with the headers.
    if (!typed) ctx.remove('Content-Type')
  }
  applyFields(ctx.res, framedHeaders(reply, ctx.method))
  // A layer may change the object in place, so the stored length may be wrong. Koa sets the length.
  if (seen && reply.kind === 'json') ctx.remove('Content-Length')
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
  let typed = false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    if (name === 'content-type') typed = true
    // Setting the body below also sets its length.
    if (name !== 'content-length') res.setHeader(name, fields[i + 1] as string)
  }
  response.status = status
  setBody(ctx, body, kind, seen)
  // Koa sets no length for a stream. For JSON it does, because a layer may change the object.
  if (seen && kind === 'stream') res.setHeader('content-length', body.byteLength)
  else if (seen && kind === 'json') response.remove('content-length')
  // Removes the Content-Type that Koa guesses.
  if (!typed) response.remove('content-type')
  return true
}

/** Replaces the response of the app in ctx. `outer` are the fields that were set before its run. */
export function replaceWith(
  ctx: Context,
  reply: Reply,
  outer: OuterFields,
  seen: boolean,
): boolean {
  // Koa 2 has responded with an error already if the source of the body failed.
  if (ctx.headerSent) return true
  restoreFields(ctx.res, outer.list)
  return replyWith(ctx, reply, seen)
}

function setBody(
  ctx: Context,
  body: Uint8Array | undefined,
  kind: BodyKind | undefined,
  seen: boolean,
): void {
  const bytes = body === undefined ? Buffer.alloc(0) : bufferOf(body)
  if (!seen) ctx.response.body = bytes
  else if (kind === 'null' && bytes.length === 0) setNull(ctx)
  else if (kind === 'stream') ctx.response.body = bodyOfKind(bytes, kind)
  else setLazyBody(ctx, bytes, kind)
}

/** Sets ctx.body to `null`, without the 204 that Koa sets with it. */
function setNull(ctx: Context): void {
  const { status } = ctx
  ctx.response.body = null
  ctx.status = status
}

function bufferOf(bytes: Uint8Array): Buffer {
  if (Buffer.isBuffer(bytes)) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
