// Judges and tees a Koa response after `await next()`: ctx has it, and nothing is written yet.
// Koa destroys a stream when its client leaves, so such a fill is `incomplete` at once. Any other
// body is whole already. A layer may still make it personal: see koa-run.ts.

import { Readable } from 'node:stream'
import type {
  CapturedHead,
  HeaderList,
  OriginEnd,
  OriginObserver,
  Reply,
} from '@stampede/core/adapter'
import {
  applyFields,
  BodyCut,
  headSent,
  isSendable,
  LiveFeed,
  missingDate,
  setsCookie,
  shield,
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

/** What came of it: how the run ends, perhaps later, or the answer to give instead. */
export type KoaCapture =
  | { readonly type: 'ends'; readonly end: Promise<OriginEnd> | OriginEnd }
  /** Where the client has it already, a stream is kept first: Koa destroys it with the answer. */
  | {
      readonly type: 'replaced'
      readonly reply: Reply
      readonly end: Promise<OriginEnd> | OriginEnd
    }

/** `outer`: fields set before the handler ran. `seen`: layers see the body, so store its kind. */
export function captureContext(
  ctx: Context,
  observer: OriginObserver,
  outer: HeaderList,
  seen: boolean,
): KoaCapture {
  if (ctx.respond === false || ctx.headerSent || ctx.res.writableEnded) {
    return { type: 'ends', end: { type: 'not-captured', reason: 'detached' } }
  }
  const body = readKoaBody(ctx)
  const headers = fieldsFor(ctx, body)
  const { status } = ctx
  const bytes = body.kind === 'bytes' ? body.bytes : undefined
  const decision = observer.onHead({ status, headers }, bytes, [ctx, ctx.response])
  const isKept = decision.action === 'send' && decision.capture
  const dated = isKept ? missingDate(headers) : []
  const head = storedHead(status, [...headers, ...dated], outer)
  if (decision.action === 'replace') {
    if (!isSendable(decision.reply)) return { type: 'ends', end: DECLINED }
    return { type: 'replaced', reply: decision.reply, end: { type: 'replaced', head } }
  }
  const { capture, instead } = decision
  const kind = seen && capture ? keptKind(body) : undefined
  if (instead !== undefined && 'headers' in instead) {
    if (body.kind !== 'unknown' && isSendable(instead)) {
      const end = capture ? ofKind(keepUnsent(ctx, body, head, observer), kind) : DECLINED
      return { type: 'replaced', reply: instead, end }
    }
  }
  const part = instead !== undefined && 'start' in instead ? instead : undefined
  for (const name of decision.remove) ctx.remove(name)
  applyFields(ctx.res, [...decision.add, ...dated])
  if (body.kind === 'unknown') return { type: 'ends', end: DECLINED }
  const cut = part && new BodyCut(part.start, part.end)
  const end = capture ? keepBody(ctx, body, head, observer, cut) : DECLINED
  if (part !== undefined && cut !== undefined) sendPart(ctx, body, part, capture ? undefined : cut)
  else if (!seen && body.kind === 'bytes' && body.as === 'json') sendJson(ctx, body.bytes, ctx.body)
  return { type: 'ends', end: ofKind(end, kind) }
}

function keepBody(
  ctx: Context,
  body: SendableBody,
  head: CapturedHead,
  { maxBodyBytes: maxBytes, live }: OriginObserver,
  cut?: BodyCut,
): Promise<OriginEnd> | OriginEnd {
  if (body.kind === 'blob') return keepBlob(body.blob, head, maxBytes)
  if (body.kind === 'stream')
    return keepStream(ctx, body.source, head, maxBytes, new LiveFeed(live), cut)
  if (body.bytes.byteLength > maxBytes) return { type: 'not-captured', reason: 'too-large' }
  const json = typeof ctx.body === 'object' && !Buffer.isBuffer(ctx.body)
  // The app may go on using its buffer.
  const own = body.as === undefined ? Buffer.from(body.bytes) : body.bytes
  // Koa sets the length of JSON itself, over whatever the app said.
  return json ? { type: 'complete', head, body: own } : whole(head, own)
}

async function keepUnsent(
  ctx: Context,
  body: SendableBody,
  head: CapturedHead,
  observer: OriginObserver,
): Promise<OriginEnd> {
  if (body.kind !== 'stream') return keepBody(ctx, body, head, observer)
  const { stream, ended } = teeStream(body.source, observer.maxBodyBytes)
  stream.resume()
  const end = await ended
  if (end.type === 'whole') return whole(head, end.body)
  stream.destroy()
  return { type: 'not-captured', reason: end.type }
}

async function keepBlob(blob: Blob, head: CapturedHead, maxBytes: number): Promise<OriginEnd> {
  if (blob.size > maxBytes) return { type: 'not-captured', reason: 'too-large' }
  try {
    return whole(head, new Uint8Array(await blob.arrayBuffer()))
  } catch {
    return { type: 'not-captured', reason: 'incomplete' }
  }
}

async function keepStream(
  ctx: Context,
  source: Parameters<typeof teeStream>[0],
  head: CapturedHead,
  maxBytes: number,
  live: LiveFeed,
  cut: BodyCut | undefined,
): Promise<OriginEnd> {
  if (live.active) {
    void showOnceSent(ctx, head, live)
    if (source instanceof Readable) shield(source, ctx.res, live)
  }
  const end = await teeBody(ctx, source, maxBytes, undefined, live, cut).ended
  return end.type === 'whole' ? whole(head, end.body) : { type: 'not-captured', reason: end.type }
}

/** A cookie that an outer layer sets with the head makes it one client's answer. */
async function showOnceSent(ctx: Context, head: CapturedHead, live: LiveFeed): Promise<void> {
  const isShared = (await headSent(ctx.res)) === 'sent' && !setsCookie(ctx.res)
  if (isShared) live.open(head)
  else live.end(false)
}

/** Has Koa send a copy of the stream in its place. */
export function teeBody(
  ctx: Context,
  source: Parameters<typeof teeStream>[0],
  maxBytes: number,
  beforeEnd?: (body: Uint8Array) => Promise<void>,
  live?: LiveFeed,
  cut?: BodyCut,
): Tee {
  const length = ctx.res.getHeader('Content-Length')
  const type = ctx.res.getHeader('Content-Type')
  const tee = teeStream(source, maxBytes, onErrorOf(ctx), beforeEnd, live, cut)
  ctx.body = tee.stream
  if (length !== undefined) ctx.res.setHeader('Content-Length', length)
  if (type === undefined) ctx.res.removeHeader('Content-Type')
  return tee
}
