// idempotency() for Koa 2 and 3. Koa writes nothing if the client has left. So the response of an
// attempt is read from ctx after `await next()`, and reported to core before the middleware
// returns. If ctx has no response by then, `res` is watched: an outer layer renders the error, or
// the handler writes to `res`.

import type { Attempt, IdempotencyOptions } from '@stampede/core'
import {
  createHttpIdempotency,
  type IdempotentExchange,
  type OriginEnd,
  type Reply,
} from '@stampede/core/adapter'
import {
  AttemptExchange,
  AttemptWatch,
  breakOff,
  fieldsOf,
  MountOrder,
  restoreFields,
} from '@stampede/node-http/adapter'
import type { Context, default as Koa } from 'koa'
import {
  bodyOfKind,
  captureBody,
  hasBytes,
  keptKind,
  readResponse,
  replaceBody,
  replyWith,
} from './body.ts'
import { layersOf, Pause, type Uncalled, type Visit, visitOf } from './context.ts'

type AttemptObserver = Parameters<IdempotentExchange['run']>[0]

declare module 'koa' {
  interface ExtendableContext {
    /** The attempt of this request. `idempotency` sets it if the request has a key. */
    idempotency?: Attempt
  }
}

/**
 * Returns a middleware that runs the next middlewares once for each idempotency key. A repeated
 * request gets the stored response. Mount it after authentication. The body parser may come before
 * or after it.
 *
 * @example
 * router.post('/payments', auth, idempotency({ scope: (ctx) => ctx.state.user.id }), createPayment)
 */
export function idempotency(
  options: IdempotencyOptions<Koa.Context>,
  ..._uncalled: Uncalled
): Koa.Middleware {
  const core = createHttpIdempotency<Koa.Context>(options)
  const order = new MountOrder('idempotency')
  return function idempotency(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    if (!order.isDone) {
      order.see(ctx.req, ctx.res, (methods) => layersOf(ctx.app, idempotency, methods))
    }
    const exchange = new KoaIdempotentExchange(visitOf(ctx, next, idempotency))
    const handled = core.handle(exchange, (attempt) => {
      ctx.idempotency = attempt
    })
    return exchange.pause.promise(handled)
  }
}

class KoaIdempotentExchange extends AttemptExchange<Context, Visit> {
  readonly pause = new Pause()

  protected pass(): void {
    this.pause.until(this.visit.next())
  }

  protected write(reply: Reply): boolean {
    const isSent = replyWith(this.native, reply)
    if (isSent) this.pause.until()
    return isSent
  }

  protected fail(error: Error): void {
    this.pause.until(Promise.reject(error))
  }

  run(observer: AttemptObserver): void {
    this.pause.until(this.wasSent(observer) ? undefined : this.#attempt(observer))
  }

  /** Returns when Koa may go on. */
  async #attempt(observer: AttemptObserver): Promise<void> {
    const ctx = this.native
    const watch = new AttemptWatch(ctx.res, observer)
    try {
      await this.visit.next()
    } catch (error) {
      watch.threw(error)
      const failed = { type: 'failed', error } as const
      // If the client has left, Koa renders nothing. An outer layer may not render it either.
      if (!ctx.headerSent && !ctx.writable) await watch.report(failed)
      else ctx.res.once('close', () => ctx.headerSent || watch.report(failed))
      throw error
    }
    const { head, body } = readResponse(ctx, watch.outer)
    if (head === undefined || body === undefined) return
    watch.stop()
    const report = async (end: OriginEnd) => watch.reportAs(end, head)
    const { holdsAll, maxBodyBytes: maxBytes } = observer
    const beforeEnd = holdsAll ? undefined : report
    const captured = captureBody(ctx, body, { head, maxBytes, kind: keptKind(body), beforeEnd })
    // The client gets a stream while it arrives. Only its end waits for core, unless all of it has
    // to wait: then it is read into memory.
    const isStream = captured instanceof Promise
    if (isStream && !holdsAll) return void captured.then(report)
    const end = isStream ? await captured : captured
    // Koa need not serialize the object a second time.
    if (!this.visit.bodyIsSeen && body.as === 'json') replaceBody(ctx, body.bytes)
    const restore = saveResponse(ctx, isStream ? undefined : end)
    // Only a transaction can have a reply in place of the response.
    const reply = await report(end)
    // Its transaction was rolled back, so the response must not be sent.
    const isCut = holdsAll && end.type === 'not-captured' && end.reason === 'incomplete'
    const isSent = reply && !isCut && replyWith(ctx, reply, watch.outer)
    if (!isCut && !reply) restore()
    // Koa has responded already if the source of the body failed.
    else if (!isSent && !ctx.headerSent) breakOff(ctx.res)
  }
}

/**
 * Saves the response in ctx, and returns a function that restores it. A handler that does not await
 * all of its work may change ctx, or the object in ctx.body, while core gets the report. Only the
 * reported response may be sent, because each replay sends it. Without `end`, the body is a stream
 * that only this package has.
 */
function saveResponse(ctx: Context, end: OriginEnd | undefined): () => void {
  const { body, status, message } = ctx
  const fields = fieldsOf(ctx.res)
  return () => {
    if (ctx.headerSent) return
    const isSame = ctx.body === body && ctx.status === status && ctx.message === message
    if (!isSame) Object.assign(ctx, { body, status, message })
    if (end?.type === 'complete' && !hasBytes(ctx, end.body))
      replaceBody(ctx, bodyOfKind(end.body, end.kind))
    if (String(fieldsOf(ctx.res)) !== String(fields)) restoreFields(ctx.res, fields)
  }
}
