// The IdempotentExchange port over a Koa context, and one attempt in Koa: a run of the handler for
// an idempotency key. Koa writes nothing if the client has left. So the response is read from ctx
// after `await next()`, and reported to core before the middleware returns. If ctx has no response
// by then, `res` is watched: an outer layer renders the error, or the handler writes to `res`.

import type { AttemptObserver, CapturedHead, OriginEnd, Reply } from '@stampede/core/adapter'
import {
  AttemptExchange,
  AttemptWatch,
  fieldsOf,
  OuterFields,
  restoreFields,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { addressOf } from './address.ts'
import {
  captureBody,
  fieldsFor,
  isDetached,
  type KoaBody,
  keptKind,
  readKoaBody,
  replyWith,
} from './body.ts'
import { goOnAfter, PASSED, type Passing } from './exchange.ts'

export class KoaIdempotentExchange extends AttemptExchange<Context> implements Passing {
  passed: Passing['passed']
  answer: Passing['answer']
  readonly #next: Next

  constructor(ctx: Context, next: Next) {
    const { req, res, request } = ctx
    // Body parsers set these properties. Their types may be unknown here.
    const read = (name: string): unknown => Reflect.get(request, name)
    const parsed = () => ({ body: read('body'), rawBody: read('rawBody'), files: read('files') })
    super({ req, res, native: ctx, address: addressOf(ctx), parsed })
    this.#next = next
  }

  protected pass(): void {
    goOnAfter(this, this.#next())
  }

  protected write(reply: Reply): boolean {
    const isSent = replyWith(this.native, reply)
    if (isSent) goOnAfter(this, PASSED)
    return isSent
  }

  protected fail(error: Error): void {
    goOnAfter(this, Promise.reject(error))
  }

  run(observer: AttemptObserver): void {
    goOnAfter(this, this.wasSent(observer) ? PASSED : this.#attempt(observer))
  }

  /** Returns when Koa may go on. */
  async #attempt(observer: AttemptObserver): Promise<void> {
    const ctx = this.native
    const outer = new OuterFields(ctx.res)
    const watch = new AttemptWatch(ctx.res, observer)
    try {
      await this.#next()
    } catch (error) {
      watch.threw(error)
      const failed = { type: 'failed', error } as const
      // If the client has left, Koa renders nothing. An outer layer may not render the error either.
      if (!ctx.headerSent && !ctx.writable) await watch.report(failed)
      else ctx.res.once('close', () => ctx.headerSent || watch.report(failed))
      throw error
    }
    const response = readResponse(ctx, outer)
    if (response === undefined) return
    watch.stop()
    const { head, body } = response
    const report = async (end: OriginEnd): Promise<void> =>
      watch.report(
        end.type === 'complete' ? { ...end, type: 'answered' } : { type: 'not-retained', head },
      )
    // The client gets a stream while it arrives. Only its end waits for core.
    const stream = { beforeEnd: report }
    const end = captureBody(ctx, body, head, observer.maxBodyBytes, keptKind(body), stream)
    if (end instanceof Promise) return void end.then(report)
    const restore = saveResponse(ctx)
    await report(end)
    restore()
  }
}

/**
 * Reads the response in ctx. Undefined if there is none: the handler writes to `res`, or Koa cannot
 * send a body of this kind.
 */
function readResponse(
  ctx: Context,
  outer: OuterFields,
): { head: CapturedHead; body: KoaBody } | undefined {
  if (isDetached(ctx)) return undefined
  try {
    const body = readKoaBody(ctx)
    return body && { body, head: outer.storedHead(ctx.status, fieldsFor(ctx, body)) }
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
    if (ctx.headerSent || (ctx.body === body && ctx.status === status)) return
    ctx.body = body
    ctx.status = status
    ctx.message = message
    restoreFields(ctx.res, fields)
  }
}
