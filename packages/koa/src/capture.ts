// Captures a Koa response after `await next()`, when ctx has the response and nothing is written
// yet. If ctx.body is a stream, Koa destroys the stream when the client leaves, and the capture is
// incomplete. Any other body is complete already. Outer layers may add cookies later (exchange.ts).

import { Readable } from 'node:stream'
import type {
  BodyKind,
  CapturedHead,
  OriginEnd,
  OriginObserver,
  PartOfBody,
  Reply,
} from '@stampede/core/adapter'
import {
  applyFields,
  BodyCut,
  Capture,
  correctStored,
  cutStream,
  isSendable,
  isWrapped,
  missingDate,
  type OuterFields,
  teeStream,
} from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { fieldsFor, isKoa3, type KoaBody, keptKind, readKoaBody, replaceBody } from './body.ts'

export const DECLINED: OriginEnd = { type: 'not-captured', reason: 'declined' }
export const INCOMPLETE: OriginEnd = { type: 'not-captured', reason: 'incomplete' }
const TOO_LARGE: OriginEnd = { type: 'not-captured', reason: 'too-large' }

export interface KoaCapture {
  readonly end: Promise<OriginEnd> | OriginEnd
  /**
   * The client gets it instead of the response in ctx. It waits for `end`, because Koa destroys a
   * stream in ctx.body when it sends a 304.
   */
  readonly reply?: Reply
}

/**
 * If the app itself writes to `res`, the response goes to its client unchanged. Only a 304 goes to
 * core first, because the cache may have set the conditions to which it replies.
 */
export function guardNotModified(ctx: Context, observer: OriginObserver): Capture {
  return new Capture(ctx.res, {
    maxBodyBytes: observer.maxBodyBytes,
    onHead: (head, whole) =>
      head.status === 304
        ? observer.onHead(head, whole, [ctx, ctx.response])
        : { action: 'send', capture: false, add: [], remove: [] },
  })
}

/** Whether the app sends the response itself, past Koa. */
export function isDetached({ respond, headerSent, res }: Context): boolean {
  return respond === false || headerSent || res.writableEnded
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
  if (isDetached(ctx)) return { end: { type: 'not-captured', reason: 'detached' } }
  const body = readKoaBody(ctx)
  const headers = fieldsFor(ctx, body)
  const { status } = ctx
  const bytes = body?.kind === 'bytes' ? body.bytes : undefined
  const decision = observer.onHead({ status, headers }, bytes, [ctx, ctx.response])
  const isCaptured = decision.action === 'send' && decision.capture
  const dated = isCaptured ? missingDate(headers) : []
  const head = outer.storedHead(status, [...headers, ...dated])
  if (decision.action === 'replace') {
    const { reply } = decision
    return isSendable(reply) ? { reply, end: { type: 'replaced', head } } : { end: DECLINED }
  }
  const { capture, instead } = decision
  const maxBytes = observer.maxBodyBytes
  const kind = bodyIsSeen && capture ? keptKind(body) : undefined
  correctStored(ctx.res, decision.add)
  if (instead !== undefined && 'headers' in instead && body !== undefined && isSendable(instead)) {
    const end = capture ? captureBody(ctx, body, head, maxBytes, kind) : DECLINED
    const unread: unknown = ctx.body
    if (capture && unread instanceof Readable) unread.resume()
    return { reply: instead, end }
  }
  const part = instead !== undefined && 'start' in instead ? instead : undefined
  for (const name of decision.remove) ctx.remove(name)
  applyFields(ctx.res, [...decision.add, ...dated])
  if (body === undefined) return { end: DECLINED }
  const cut = part && new BodyCut(part.start, part.end)
  const end = capture ? captureBody(ctx, body, head, maxBytes, kind, { cut }) : DECLINED
  if (part !== undefined) sendPart(ctx, body, part, capture ? undefined : cut)
  // Koa need not serialize the object a second time.
  else if (!bodyIsSeen && body.kind === 'bytes' && body.as === 'json' && !isWrapped(ctx.res))
    replaceBody(ctx, body.bytes)
  return { end }
}

/**
 * The capture of a body that goes to the client. `beforeEnd` delays the end of a stream for the
 * client.
 */
export function captureBody(
  ctx: Context,
  body: KoaBody,
  head: CapturedHead,
  maxBytes: number,
  kind: BodyKind | undefined,
  stream: { beforeEnd?: (end: OriginEnd) => Promise<void>; cut?: BodyCut | undefined } = {},
): Promise<OriginEnd> | OriginEnd {
  if (body.kind === 'blob') {
    if (body.blob.size > maxBytes) return TOO_LARGE
    const read = body.blob.arrayBuffer()
    return read.then(
      (all) => whole(head, new Uint8Array(all), kind),
      () => INCOMPLETE,
    )
  }
  if (body.kind === 'stream') {
    const { beforeEnd, cut } = stream
    const report = beforeEnd && ((all: Uint8Array) => beforeEnd(whole(head, all, kind)))
    const length = ctx.res.getHeader('Content-Length')
    const tee = teeStream(body.source, maxBytes, onErrorOf(ctx), report, cut)
    replaceBody(ctx, tee.stream)
    if (length !== undefined) ctx.res.setHeader('Content-Length', length)
    return tee.ended.then((end) =>
      end.type === 'whole'
        ? whole(head, end.body, kind)
        : { type: 'not-captured', reason: end.type },
    )
  }
  if (body.bytes.byteLength > maxBytes) return TOO_LARGE
  // A copy, because the app may change its buffer later.
  const own = body.as === undefined ? Buffer.from(body.bytes) : body.bytes
  // Koa replaces the Content-Length that the app has set for JSON, or for the text of a status.
  const isMeasured = body.as === 'json' || body.type !== undefined
  return isMeasured ? { type: 'complete', head, body: own, kind } : whole(head, own, kind)
}

/** The end with this body. Incomplete if the body does not have the length in Content-Length. */
function whole(head: CapturedHead, body: Uint8Array, kind: BodyKind | undefined): OriginEnd {
  const declared = head.headers.find(([name]) => name === 'content-length')?.[1]
  const cut = declared !== undefined && Number(declared) !== body.byteLength
  return cut && head.status !== 204 && head.status !== 304
    ? INCOMPLETE
    : { type: 'complete', head, body, kind }
}

/**
 * Returns the function to call when the source of a replaced ctx.body fails. In Koa 2 it destroys
 * the new stream without an error, because Koa has already reported the error of the source.
 */
function onErrorOf(ctx: Context): ((stream: Readable) => void) | undefined {
  return isKoa3(ctx) ? undefined : (stream) => void stream.destroy()
}

/**
 * Replaces the body with a part of the body (206), for the client whose request runs the handler.
 * `cut` is set for a stream that is not captured. The capture cuts a stream itself.
 */
function sendPart(
  ctx: Context,
  body: KoaBody,
  { status, start, end, fields }: PartOfBody,
  cut: BodyCut | undefined,
): void {
  ctx.status = status
  if (body.kind === 'bytes') {
    if (body.type !== undefined) ctx.res.setHeader('Content-Type', body.type)
    replaceBody(ctx, Buffer.from(body.bytes.subarray(start, end)))
  } else if (body.kind === 'blob') replaceBody(ctx, body.blob.slice(start, end))
  else if (cut !== undefined) replaceBody(ctx, cutStream(body.source, cut, onErrorOf(ctx)))
  applyFields(ctx.res, fields)
}
