// One attempt in Koa: a run of the handler for an idempotency key. Koa writes nothing if the client
// has left. So the response is read from ctx after `await next()`, and reported to core before the
// middleware returns. If ctx has no response by then, `res` is watched: an outer layer renders the
// error, or the handler writes to `res` itself.

import type { AttemptEnd, AttemptObserver, BodyKind, CapturedHead } from '@stampede/core/adapter'
import {
  type AttemptWatch,
  fieldsOf,
  OuterFields,
  restoreFields,
  storedHead,
  watchAttempt,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { fieldsFor, type KoaBody, keptKind, readKoaBody, whole } from './koa-body.ts'
import { teeBody } from './koa-capture.ts'
import type { ReturnPromise } from './return-promise.ts'

/**
 * Resolves when the end of the attempt has been reported to core. It settles `answer`, the promise
 * for Koa, as soon as Koa may go on.
 */
export async function runAttempt(
  ctx: Context,
  next: Next,
  observer: AttemptObserver,
  answer: ReturnPromise,
): Promise<void> {
  const outer = new OuterFields(ctx.res)
  const watch = watchAttempt(ctx.res, observer)
  try {
    await next()
  } catch (error) {
    return watchFailure(ctx, error, watch, answer)
  }
  const response = readResponse(ctx, outer)
  if (response === undefined) {
    answer.resolve()
    return watch.ended
  }
  watch.stop()
  const { head, body } = response
  if (body.kind === 'stream') {
    const ended = reportStream(ctx, body.source, head, observer, watch)
    answer.resolve()
    return ended
  }
  const end = await endOf(ctx, body, head, observer.maxBodyBytes)
  const restore = saveResponse(ctx)
  await watch.report(end)
  restore()
  answer.resolve()
}

/**
 * Reports the response that an outer layer or Koa renders for the error. If neither renders one,
 * reports that the attempt has failed.
 */
function watchFailure(
  ctx: Context,
  error: unknown,
  watch: AttemptWatch,
  answer: ReturnPromise,
): Promise<void> {
  watch.threw(error)
  const failed = (): Promise<void> => watch.report({ type: 'failed', error })
  // If the client has left, Koa renders nothing.
  if (!ctx.headerSent && !ctx.writable) {
    const reported = failed()
    reported.then(() => answer.reject(error))
    return reported
  }
  ctx.res.once('close', () => {
    if (!ctx.headerSent) failed()
  })
  answer.reject(error)
  return watch.ended
}

type Known = Exclude<KoaBody, { kind: 'unknown' }>

/**
 * Reads the response in ctx. Undefined if there is none: the handler writes to `res`, or Koa cannot
 * send a body of this kind.
 */
function readResponse(
  ctx: Context,
  outer: OuterFields,
): { readonly head: CapturedHead; readonly body: Known } | undefined {
  if (ctx.respond === false || ctx.headerSent || ctx.res.writableEnded) return undefined
  try {
    const body = readKoaBody(ctx)
    if (body.kind === 'unknown') return undefined
    return { body, head: storedHead(ctx.status, fieldsFor(ctx, body), outer) }
  } catch {
    return undefined
  }
}

async function endOf(
  ctx: Context,
  body: Exclude<Known, { kind: 'stream' }>,
  head: CapturedHead,
  maxBytes: number,
): Promise<AttemptEnd> {
  const size = body.kind === 'blob' ? body.blob.size : body.bytes.byteLength
  if (size > maxBytes) return { type: 'not-retained', head }
  try {
    const bytes = body.kind === 'blob' ? new Uint8Array(await body.blob.arrayBuffer()) : body.bytes
    // The length of JSON is not checked: Koa replaces the Content-Length that the app has set.
    const json = body.kind === 'bytes' && isJson(ctx.body)
    const own = Buffer.from(bytes)
    const kind = keptKind(body)
    return json ? { type: 'answered', head, body: own, kind } : completeOrNot(head, own, kind)
  } catch {
    return { type: 'not-retained', head }
  }
}

function isJson(body: unknown): boolean {
  return typeof body === 'object' && !Buffer.isBuffer(body)
}

function completeOrNot(head: CapturedHead, body: Uint8Array, kind?: BodyKind): AttemptEnd {
  return whole(head, body).type === 'complete'
    ? { type: 'answered', head, body, kind }
    : { type: 'not-retained', head }
}

/** The client gets the stream while it arrives. Only its end waits for core. */
async function reportStream(
  ctx: Context,
  source: Parameters<typeof teeBody>[1],
  head: CapturedHead,
  observer: AttemptObserver,
  watch: AttemptWatch,
): Promise<void> {
  const report = (body: Uint8Array): Promise<void> =>
    watch.report(completeOrNot(head, body, 'stream'))
  const { ended } = teeBody(ctx, source, observer.maxBodyBytes, report)
  const end = await ended
  return end.type === 'whole' ? report(end.body) : watch.report({ type: 'not-retained', head })
}

/**
 * Saves the response in ctx, and returns a function that restores it. A handler that does not await
 * all of its work may change ctx while core gets the report. Only the reported response may be
 * sent.
 */
function saveResponse(ctx: Context): () => void {
  const { body, status, message } = ctx
  const fields = fieldsOf(ctx.res.getHeaders())
  return () => {
    if (ctx.body === body && ctx.status === status) return
    if (ctx.headerSent) return
    ctx.body = body
    ctx.status = status
    ctx.message = message
    restoreFields(ctx.res, fields)
  }
}
