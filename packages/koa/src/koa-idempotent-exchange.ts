// The IdempotentExchange port over a Koa context, and one attempt in Koa: a run of the handler for
// an idempotency key. Koa writes nothing if the client has left. So the response is read from ctx
// after `await next()`, and reported to core before the middleware returns. If ctx has no response
// by then, `res` is watched: an outer layer renders the error, or the handler writes to `res`.

import {
  type AttemptObserver,
  type BodyKind,
  type CapturedHead,
  type HeaderList,
  type IdempotentExchange,
  type OriginEnd,
  responseError,
} from '@stampede/core/adapter'
import {
  AttemptWatch,
  addAtHead,
  discardRequestBody,
  fieldsOf,
  linesOf,
  OuterFields,
  readRequest,
  readRequestBody,
  restoreFields,
  unsendable,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { addressOf } from './address.ts'
import { fieldsFor, type KoaBody, keptKind, readKoaBody, replyWith } from './body.ts'
import { captureBody, isDetached } from './capture.ts'
import type { Answer } from './exchange.ts'

/** `answer` settles when ctx has the response, or with the error of the app. */
export function createKoaIdempotentExchange(
  ctx: Context,
  next: Next,
  answer: Answer,
): IdempotentExchange<Context> {
  return {
    request: readRequest(ctx.req, addressOf(ctx)),
    native: ctx,
    lines: (name) => linesOf(ctx.req, name),
    isSet: (name) => ctx.res.hasHeader(name),
    readBody(maxBytes) {
      // Body parsers set these properties. Their types may be unknown here.
      const read = (name: string): unknown => Reflect.get(ctx.request, name)
      const parsed = { body: read('body'), rawBody: read('rawBody'), files: read('files') }
      return readRequestBody(ctx.req, maxBytes, parsed)
    },
    forward(add: HeaderList) {
      answer.begun = true
      addAtHead(ctx.res, add)
      const passed: Promise<void> = next()
      return passed.then(answer.resolve, answer.reject)
    },
    run(observer) {
      answer.begun = true
      if (!ctx.headerSent && !ctx.res.writableEnded) return runAttempt(ctx, next, observer, answer)
      answer.resolve()
      return observer.onEnd({
        type: 'failed',
        error: responseError('the response was sent before the handler ran'),
      })
    },
    send(reply) {
      answer.begun = true
      // If the reply cannot be sent, the request fails. The handler must not run again.
      if (replyWith(ctx, reply)) answer.resolve()
      else answer.reject(unsendable())
      discardRequestBody(ctx.req)
    },
  }
}

/**
 * Resolves when the end of the attempt has been reported to core. It settles `answer` as soon as
 * Koa may go on.
 */
async function runAttempt(
  ctx: Context,
  next: Next,
  observer: AttemptObserver,
  answer: Answer,
): Promise<void> {
  const outer = new OuterFields(ctx.res)
  const watch = new AttemptWatch(ctx.res, observer)
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
  const { head, body, kind } = response
  const report = (end: OriginEnd): Promise<void> =>
    watch.report(
      end.type === 'complete' ? { ...end, type: 'answered' } : { type: 'not-retained', head },
    )
  // The client gets a stream while it arrives. Only its end waits for core.
  const stream = { beforeEnd: report }
  const ending = captureBody(ctx, body, head, observer.maxBodyBytes, kind, stream)
  if (body.kind === 'stream') {
    answer.resolve()
    return report(await ending)
  }
  const end = await ending
  const restore = saveResponse(ctx)
  await report(end)
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
  answer: Answer,
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

/**
 * Reads the response in ctx. Undefined if there is none: the handler writes to `res`, or Koa cannot
 * send a body of this kind.
 */
function readResponse(
  ctx: Context,
  outer: OuterFields,
): { head: CapturedHead; body: KoaBody; kind: BodyKind | undefined } | undefined {
  if (isDetached(ctx)) return undefined
  try {
    const body = readKoaBody(ctx)
    if (body === undefined) return undefined
    const head = outer.storedHead(ctx.status, fieldsFor(ctx, body))
    return { body, head, kind: keptKind(body) }
  } catch {
    return undefined
  }
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
