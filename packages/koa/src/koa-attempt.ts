// A run of the handler in Koa. Koa writes nothing once the client has left, so an answer is taken from ctx after
// `await next()` and told to core before Koa hears of it. What is not in ctx then (an error that is rendered further out,
// a handler that writes to `res` itself) is watched on the response.

import type { AttemptEnd, AttemptObserver, CapturedHead, HeaderList } from '@stampede/core/adapter'
import {
  type AttemptWatch,
  fieldsOf,
  restoreFields,
  storedHead,
  watchAttempt,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import type { Answer } from './answer.ts'
import { fieldsFor, type KoaBody, readKoaBody, whole } from './koa-body.ts'
import { teeBody } from './koa-capture.ts'

/** Resolves when core was told how it ended; `answer` is given as soon as Koa may go on. */
export async function runAttempt(
  ctx: Context,
  next: Next,
  observer: AttemptObserver,
  answer: Answer,
): Promise<void> {
  const outer = fieldsOf(ctx.res.getHeaders())
  const watch = watchAttempt(ctx.res, observer)
  try {
    await next()
  } catch (error) {
    return watchFailure(ctx, error, watch, answer)
  }
  const made = readAnswer(ctx, outer)
  if (made === undefined) {
    answer.given()
    return watch.ended
  }
  watch.stop()
  if (made.body.kind === 'stream') {
    const ended = tellStream(ctx, made.body.source, made.head, observer, watch)
    answer.given()
    return ended
  }
  const end = await endOf(ctx, made.body, made.head, observer.maxBodyBytes)
  const restore = rememberAnswer(ctx)
  await watch.report(end)
  restore()
  answer.given()
}

/** Whoever renders the error, if anybody does, it is that answer which counts. */
function watchFailure(
  ctx: Context,
  error: unknown,
  watch: AttemptWatch,
  answer: Answer,
): Promise<void> {
  watch.threw(error)
  const failed = (): Promise<void> => watch.report({ type: 'failed', error })
  // Without a client Koa renders nothing.
  if (!ctx.headerSent && !ctx.writable) {
    const told = failed()
    told.then(() => answer.threw(error))
    return told
  }
  ctx.res.once('close', () => {
    if (!ctx.headerSent) failed()
  })
  answer.threw(error)
  return watch.ended
}

type Known = Exclude<KoaBody, { kind: 'unknown' }>

/** Undefined if it is not in ctx: written directly, or of a kind that Koa will fail to send. */
function readAnswer(
  ctx: Context,
  outer: HeaderList,
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
    // Koa sets the length of JSON itself, over whatever the app said.
    const json = body.kind === 'bytes' && isJson(ctx.body)
    const own = Buffer.from(bytes)
    return json ? { type: 'answered', head, body: own } : wholeOrNot(head, own)
  } catch {
    return { type: 'not-retained', head }
  }
}

function isJson(body: unknown): boolean {
  return typeof body === 'object' && !Buffer.isBuffer(body)
}

function wholeOrNot(head: CapturedHead, body: Uint8Array): AttemptEnd {
  return whole(head, body).type === 'complete'
    ? { type: 'answered', head, body }
    : { type: 'not-retained', head }
}

/** The stream goes to the client as it comes; only its end waits for core. */
async function tellStream(
  ctx: Context,
  source: Parameters<typeof teeBody>[1],
  head: CapturedHead,
  observer: AttemptObserver,
  watch: AttemptWatch,
): Promise<void> {
  const tell = (body: Uint8Array): Promise<void> => watch.report(wholeOrNot(head, body))
  const { ended } = teeBody(ctx, source, observer.maxBodyBytes, tell)
  const end = await ended
  return end.type === 'whole' ? tell(end.body) : watch.report({ type: 'not-retained', head })
}

/** A handler that nobody awaits may answer again while core is told of the first answer, which is the one that counts. */
function rememberAnswer(ctx: Context): () => void {
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
