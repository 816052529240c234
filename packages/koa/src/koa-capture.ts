// Judging and teeing a Koa response at the layer of our middleware: after `await next()`, when nothing
// has been written and ctx says what will be.
//
// A stream ends with its client: Koa itself destroys it when the response is closed, so such a fill is
// `incomplete` at once. (A body at hand is whole, but see unlessPersonal in koa-exchange.ts.)

import { Readable } from 'node:stream'
import type { CapturedHead, OriginEnd, OriginObserver, Reply } from '@stampede/core'
import {
  applyFields,
  type FieldMap,
  fieldsOf,
  groupFields,
  headSent,
  isSendable,
  LiveFeed,
  missingDate,
  setsCookie,
  shield,
  storedHead,
  type Tee,
  teeStream,
  toHeaderList,
} from '@stampede/node-http'
import type { Context } from 'koa'
import { isKoa3, type KoaBody, readKoaBody } from './koa-body.ts'

/** What came of it: how the run ends, perhaps later, or the answer to give instead. */
export type KoaCapture =
  | { readonly type: 'ends'; readonly end: Promise<OriginEnd> | OriginEnd }
  /** Where the client has it already, a stream is kept first: Koa destroys it with the answer. */
  | {
      readonly type: 'replaced'
      readonly reply: Reply
      readonly end: Promise<OriginEnd> | OriginEnd
    }

/** `outer` are the fields that were set before the origin ran. */
export function captureContext(
  ctx: Context,
  observer: OriginObserver,
  outer: FieldMap,
): KoaCapture {
  if (ctx.respond === false || ctx.headerSent || ctx.res.writableEnded) return not('detached')
  const body = readKoaBody(ctx)
  const fields = fieldsOf(ctx.res.getHeaders())
  if (body.kind === 'bytes' && body.type !== undefined) fields.set('content-type', [body.type])
  const { status } = ctx
  const whole = body.kind === 'bytes' ? body.bytes : undefined
  const decision = observer.onHead({ status, headers: toHeaderList(fields) }, whole)
  const isKept = decision.action === 'send' && decision.capture
  const dated = isKept ? missingDate(fields) : []
  const head = storedHead(status, new Map([...fields, ...groupFields(dated)]), outer)
  if (decision.action === 'replace') {
    if (!isSendable(decision.reply)) return not('declined')
    return { type: 'replaced', reply: decision.reply, end: { type: 'replaced', head } }
  }
  const { capture, notModified: reply } = decision
  if (reply !== undefined && capture && body.kind !== 'unknown' && isSendable(reply)) {
    return { type: 'replaced', reply, end: keepUnsent(ctx, body, head, observer) }
  }
  for (const name of decision.remove) ctx.remove(name)
  applyFields(ctx.res, [...decision.add, ...dated])
  if (!capture || body.kind === 'unknown') return not('declined')
  return { type: 'ends', end: keepBody(ctx, body, head, observer) }
}

function keepBody(
  ctx: Context,
  body: Exclude<KoaBody, { kind: 'unknown' }>,
  head: CapturedHead,
  { maxBodyBytes: maxBytes, live }: OriginObserver,
): Promise<OriginEnd> | OriginEnd {
  if (body.kind === 'blob') return keepBlob(body.blob, head, maxBytes)
  if (body.kind === 'stream')
    return keepStream(ctx, body.source, head, maxBytes, new LiveFeed(live))
  if (body.bytes.byteLength > maxBytes) return { type: 'not-captured', reason: 'too-large' }
  const json = typeof ctx.body === 'object' && !Buffer.isBuffer(ctx.body)
  // Koa sets the length of JSON itself, over whatever the app said.
  return json ? { type: 'complete', head, body: own(body.bytes) } : whole(head, own(body.bytes))
}

async function keepUnsent(
  ctx: Context,
  body: Exclude<KoaBody, { kind: 'unknown' }>,
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

/** The app may go on using its buffer. */
export function own(bytes: Uint8Array): Uint8Array {
  return Buffer.from(bytes)
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
): Promise<OriginEnd> {
  if (live.active) {
    void showOnceSent(ctx, head, live)
    if (source instanceof Readable) shield(source, ctx.res, live)
  }
  const end = await teeBody(ctx, source, maxBytes, undefined, live).ended
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
): Tee {
  const length = ctx.res.getHeader('Content-Length')
  const type = ctx.res.getHeader('Content-Type')
  // Koa 2 has answered the error of the source already, and reports that of its successor once more.
  const onError = isKoa3(ctx) ? undefined : (stream: Readable) => void stream.destroy()
  const tee = teeStream(source, maxBytes, onError, beforeEnd, live)
  ctx.body = tee.stream
  if (length !== undefined) ctx.res.setHeader('Content-Length', length)
  if (type === undefined) ctx.res.removeHeader('Content-Type')
  return tee
}

/** Complete, unless fewer or more bytes came than were declared. */
export function whole(head: CapturedHead, body: Uint8Array): OriginEnd {
  const declared = head.headers.find(([name]) => name === 'content-length')?.[1]
  const cut = declared !== undefined && Number(declared) !== body.byteLength
  return cut && head.status !== 204 && head.status !== 304
    ? { type: 'not-captured', reason: 'incomplete' }
    : { type: 'complete', head, body }
}

function not(reason: 'declined' | 'detached'): KoaCapture {
  return { type: 'ends', end: { type: 'not-captured', reason } }
}
