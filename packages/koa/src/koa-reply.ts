// Giving an answer of core's as a Koa context: Koa writes it out after the outer middlewares.

import { type LiveReply, OWN_FIELDS, type ReadyReply, type Reply } from '@stampede/core'
import {
  applyFields,
  type FieldMap,
  forbidTransform,
  framedHeaders,
  hasBody,
  hasRepeats,
  isSendable,
  liveHeaders,
  liveStream,
  replyOf,
  restoreFields,
} from '@stampede/node-http'
import type { Context } from 'koa'

/** False, and nothing changed, if the reply is not one that can be sent. */
export function replyWith(ctx: Context, reply: Reply): boolean {
  if (ctx.headerSent) return true
  if (!isSendable(reply)) return false
  ctx.status = reply.status
  for (const name of OWN_FIELDS) ctx.remove(name)
  if (!hasBody(reply.status, undefined)) {
    ctx.body = null
  } else if (reply.body !== undefined || ctx.method !== 'HEAD') {
    const typed = ctx.res.hasHeader('Content-Type')
    ctx.body = toBuffer(reply.body)
    // What Koa guesses for a Buffer; the type that was stored comes with the headers.
    if (!typed) ctx.remove('Content-Type')
  }
  applyFields(ctx.res, framedHeaders(reply, ctx.method))
  if (reply.part) forbidTransform(ctx.res)
  return true
}

/** As `replyWith`. Where no layer further out has set a field, none is merged. Straight to Koa's response: a context passes on by name. */
export function replyAtOnce(ctx: Context, ready: ReadyReply): boolean {
  const { res, response } = ctx
  const { status, fields, body } = ready
  const isPlain = !res.headersSent && res.getHeaderNames().length === 0 && !hasRepeats(fields)
  if (!isPlain || !hasBody(status, undefined)) return replyWith(ctx, replyOf(ready))
  let typed = false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    if (name === 'content-type') typed = true
    // The length is set with the body.
    if (name !== 'content-length') res.setHeader(name, fields[i + 1] as string)
  }
  response.status = status
  response.body = toBuffer(body)
  // What Koa guesses for a Buffer.
  if (!typed) response.remove('content-type')
  return true
}

/** In the place of what the app has put into ctx; `outer` are the fields from before. */
export function replaceWith(ctx: Context, reply: Reply, outer: FieldMap): boolean {
  // Koa 2 answers by itself when the source of a body breaks.
  if (ctx.headerSent) return true
  restoreFields(ctx.res, outer)
  return replyWith(ctx, reply)
}

/** As `replyWith`, with a body that is still coming. */
export function replyLive(ctx: Context, reply: LiveReply): boolean {
  const headers = liveHeaders(ctx.res, reply)
  if (headers === undefined) return ctx.headerSent || ctx.res.destroyed
  const typed = ctx.res.hasHeader('Content-Type')
  ctx.status = reply.status
  ctx.body = liveStream(ctx.res, reply.body)
  // What Koa guesses for a stream.
  if (!typed) ctx.remove('Content-Type')
  applyFields(ctx.res, headers)
  return true
}

function toBuffer(body: Uint8Array | undefined): Buffer {
  if (body === undefined) return Buffer.alloc(0)
  if (Buffer.isBuffer(body)) return body
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength)
}
