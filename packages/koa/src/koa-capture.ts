// Captures a Koa response after `await next()`, when ctx has the response and nothing is written
// yet. If ctx.body is a stream, Koa destroys the stream when the client leaves, and the capture is
// incomplete. Any other body is complete already. Outer layers may add cookies later (koa-run.ts).

import type { CapturedHead, OriginEnd, OriginObserver, Reply } from '@stampede/core/adapter'
import {
  applyFields,
  BodyCut,
  correctStored,
  isSendable,
  missingDate,
  type OuterFields,
  storedHead,
  type Tee,
  teeStream,
} from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import {
  DECLINED,
  fieldsFor,
  keptKind,
  ofKind,
  onErrorOf,
  readKoaBody,
  type SendableBody,
  whole,
} from './koa-body.ts'
import { sendPart } from './koa-part.ts'
import { sendJson } from './lazy-body.ts'

/** `kept`: the client gets the response in ctx. `replaced`: the client gets `reply` instead. */
export type KoaCapture =
  | { readonly type: 'kept'; readonly end: Promise<OriginEnd> | OriginEnd }
  /** The reply waits for `end`, because Koa destroys a stream in ctx.body when it sends a 304. */
  | {
      readonly type: 'replaced'
      readonly reply: Reply
      readonly end: Promise<OriginEnd> | OriginEnd
    }

/**
 * Captures the response in ctx. `outer` are the fields that were set before the handler ran. If
 * `bodyIsSeen`, layers in front can read ctx.body, so the kind of the body is stored with it.
 */
export function captureContext(
  ctx: Context,
  observer: OriginObserver,
  outer: OuterFields,
  bodyIsSeen: boolean,
): KoaCapture {
  if (ctx.respond === false || ctx.headerSent || ctx.res.writableEnded) {
    return { type: 'kept', end: { type: 'not-captured', reason: 'detached' } }
  }
  const body = readKoaBody(ctx)
  const headers = fieldsFor(ctx, body)
  const { status } = ctx
  const bytes = body.kind === 'bytes' ? body.bytes : undefined
  const decision = observer.onHead({ status, headers }, bytes, [ctx, ctx.response])
  const isCaptured = decision.action === 'send' && decision.capture
  const dated = isCaptured ? missingDate(headers) : []
  const head = storedHead(status, [...headers, ...dated], outer)
  if (decision.action === 'replace') {
    if (!isSendable(decision.reply)) return { type: 'kept', end: DECLINED }
    return { type: 'replaced', reply: decision.reply, end: { type: 'replaced', head } }
  }
  const { capture, instead } = decision
  correctStored(ctx.res, decision.add)
  const kind = bodyIsSeen && capture ? keptKind(body) : undefined
  if (instead !== undefined && 'headers' in instead) {
    if (body.kind !== 'unknown' && isSendable(instead)) {
      const end = capture ? ofKind(captureUnsent(ctx, body, head, observer), kind) : DECLINED
      return { type: 'replaced', reply: instead, end }
    }
  }
  const part = instead !== undefined && 'start' in instead ? instead : undefined
  for (const name of decision.remove) ctx.remove(name)
  applyFields(ctx.res, [...decision.add, ...dated])
  if (body.kind === 'unknown') return { type: 'kept', end: DECLINED }
  const cut = part && new BodyCut(part.start, part.end)
  const end = capture ? captureBody(ctx, body, head, observer, cut) : DECLINED
  if (part !== undefined && cut !== undefined) sendPart(ctx, body, part, capture ? undefined : cut)
  else if (!bodyIsSeen && body.kind === 'bytes' && body.as === 'json')
    sendJson(ctx, body.bytes, ctx.body)
  return { type: 'kept', end: ofKind(end, kind) }
}

function captureBody(
  ctx: Context,
  body: SendableBody,
  head: CapturedHead,
  { maxBodyBytes: maxBytes }: OriginObserver,
  cut?: BodyCut,
): Promise<OriginEnd> | OriginEnd {
  if (body.kind === 'blob') return captureBlob(body.blob, head, maxBytes)
  if (body.kind === 'stream') return captureStream(ctx, body.source, head, maxBytes, cut)
  if (body.bytes.byteLength > maxBytes) return { type: 'not-captured', reason: 'too-large' }
  const json = typeof ctx.body === 'object' && !Buffer.isBuffer(ctx.body)
  // A copy, because the app may change its buffer later.
  const own = body.as === undefined ? Buffer.from(body.bytes) : body.bytes
  // The length of JSON is not checked: Koa replaces the Content-Length that the app has set.
  return json ? { type: 'complete', head, body: own } : whole(head, own)
}

/** Captures the body in ctx if the client gets another reply in its place. */
async function captureUnsent(
  ctx: Context,
  body: SendableBody,
  head: CapturedHead,
  observer: OriginObserver,
): Promise<OriginEnd> {
  if (body.kind !== 'stream') return captureBody(ctx, body, head, observer)
  const { stream, ended } = teeStream(body.source, observer.maxBodyBytes)
  stream.resume()
  const end = await ended
  if (end.type === 'whole') return whole(head, end.body)
  stream.destroy()
  return { type: 'not-captured', reason: end.type }
}

async function captureBlob(blob: Blob, head: CapturedHead, maxBytes: number): Promise<OriginEnd> {
  if (blob.size > maxBytes) return { type: 'not-captured', reason: 'too-large' }
  try {
    return whole(head, new Uint8Array(await blob.arrayBuffer()))
  } catch {
    return { type: 'not-captured', reason: 'incomplete' }
  }
}

async function captureStream(
  ctx: Context,
  source: Parameters<typeof teeStream>[0],
  head: CapturedHead,
  maxBytes: number,
  cut: BodyCut | undefined,
): Promise<OriginEnd> {
  const end = await teeBody(ctx, source, maxBytes, undefined, cut).ended
  return end.type === 'whole' ? whole(head, end.body) : { type: 'not-captured', reason: end.type }
}

/** Replaces the stream in ctx.body with a copy, to capture its bytes while Koa sends them. */
export function teeBody(
  ctx: Context,
  source: Parameters<typeof teeStream>[0],
  maxBytes: number,
  beforeEnd?: (body: Uint8Array) => Promise<void>,
  cut?: BodyCut,
): Tee {
  const length = ctx.res.getHeader('Content-Length')
  const type = ctx.res.getHeader('Content-Type')
  const tee = teeStream(source, maxBytes, onErrorOf(ctx), beforeEnd, cut)
  ctx.body = tee.stream
  if (length !== undefined) ctx.res.setHeader('Content-Length', length)
  if (type === undefined) ctx.res.removeHeader('Content-Type')
  return tee
}
