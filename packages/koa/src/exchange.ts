// The Exchange port over a Koa context. Koa writes the response only after all middlewares have
// returned. So the cache must return as soon as ctx has the response, even if core is still at
// work.

import { type ServerResponse, STATUS_CODES } from 'node:http'
import {
  type Exchange,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type ReadLog,
  type ReadyReply,
  type Reply,
  type RequestView,
} from '@stampede/core/adapter'
import {
  addAtHead,
  endsInTime,
  enterOrigin,
  hideConditionals,
  OuterFields,
  onHeadSent,
  RequestExchange,
  type RequestVisit,
  setsCookie,
  watchHead,
  watchLeft,
  watchReads,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { isKoa3, replyAtOnce, replyWith } from './body.ts'
import { captureContext, DECLINED, guardNotModified, INCOMPLETE } from './capture.ts'

/** The promise that a middleware returns to Koa. It settles as soon as Koa may go on. */
export class Answer {
  /** Whether core has begun to send a response or to run the handler. */
  begun = false
  resolve: () => void = () => {}
  reject: (error: unknown) => void = () => {}
  readonly promise: Promise<void> = new Promise((resolve, reject) => {
    this.resolve = resolve
    this.reject = reject
  })

  /** `handled`: core has finished. If it has not begun to respond, the middleware returns then. */
  settledBy(handled: Promise<void>): Promise<void> {
    handled.then(() => this.begun || this.resolve(), this.reject)
    return this.promise
  }
}

export class KoaExchange extends RequestExchange<Context> implements Exchange<Context> {
  /** Undefined if ctx got the response synchronously. */
  answer: Answer | undefined
  readonly #next: Next
  /** Whether a layer in front can read ctx.body: see isSeen(). */
  readonly #isSeen: boolean

  constructor(
    visit: RequestVisit<Context>,
    request: RequestView,
    owner: object,
    next: Next,
    bodyIsSeen: boolean,
  ) {
    super(visit, request, owner)
    this.#next = next
    this.#isSeen = bodyIsSeen
  }

  override prepare(): void {
    super.prepare()
    this.answer = new Answer()
  }

  forward(
    ...[add, { onHead, onInner, onEnd } = {}]: Parameters<Exchange['forward']>
  ): Promise<void> {
    const ctx = this.native
    const answer = this.#begin()
    if (onInner !== undefined) enterOrigin(ctx.req, onInner)
    addAtHead(ctx.res, add, OWN_FIELDS)
    const headSet = onHead && watchHead(ctx.res, (head) => onHead(head, [ctx, ctx.response]))
    if (onEnd !== undefined) ctx.res.once('close', onEnd)
    const passed: Promise<void> = this.#next()
    // If the client has left, Koa writes no head, so the head in ctx is reported here.
    passed.then(() => ctx.writable || headSet?.()).catch(() => {})
    passed.then(answer.resolve, answer.reject)
    return passed
  }

  runOrigin(observer: OriginObserver): Promise<OriginEnd> {
    const { res } = this.native
    const answer = this.#begin()
    this.run = { isLeft: watchLeft(res) }
    if (observer.onEnd !== undefined) res.once('close', observer.onEnd)
    return this.inContext(() => this.#run(observer, answer))
  }

  send(reply: Reply): void {
    this.#begin()
    this.#sent(replyWith(this.native, reply, this.#isSeen))
  }

  sendReady(ready: ReadyReply): void {
    if (this.answer !== undefined) this.#begin()
    this.#sent(replyAtOnce(this.native, ready, this.#isSeen))
  }

  watchReads(): ReadLog {
    const ctx = this.native
    const reads = watchReads(ctx.req, ctx.res, ctx.request)
    reads.watch(ctx, 'ctx')
    // The rest runs in layers in front of the cache.
    reads.endsAtHead = true
    return reads
  }

  /** The path that @koa/router matched. */
  routeOf(ctx: Context): string | undefined {
    const path: unknown = ctx._matchedRoute
    return typeof path === 'string' ? path : undefined
  }

  #begin(): Answer {
    this.answer ??= new Answer()
    this.answer.begun = true
    return this.answer
  }

  /** Runs the handler if the reply could not be sent. */
  #sent(isSent: boolean): void {
    if (isSent) this.answer?.resolve()
    else this.forward([]).catch(() => {})
  }

  /** Runs the app for a fill. Its response is captured, or its error reported. */
  #run(observer: OriginObserver, answer: Answer): Promise<OriginEnd> {
    const ctx = this.native
    const { req, res } = ctx
    const outer = new OuterFields(res)
    // Removes the fields for this cache, even from a response that the app writes to `res` itself.
    addAtHead(res, [], OWN_FIELDS)
    const showConditionals = hideConditionals(req, observer.conditions)
    const guard = observer.conditions && guardNotModified(ctx, observer)
    let isLeftToInner = false
    enterOrigin(req, (inner) => {
      const add = observer.onInner?.(inner)
      if (add === undefined) return undefined
      isLeftToInner = true
      guard?.stop()
      showConditionals?.()
      addAtHead(res, add)
      return add
    })
    const stopWatching = (): void => {
      showConditionals?.()
      if (ctx.respond !== false) guard?.stop()
    }
    return new Promise((resolve) => {
      const ended = (inTime: boolean): void => {
        stopWatching()
        if (inTime && !isLeftToInner) return this.#capture(observer, outer, answer, resolve)
        answer.resolve()
        resolve(inTime ? DECLINED : INCOMPLETE)
      }
      const failed = (error: unknown): void => {
        const status = statusOf(ctx, error)
        try {
          const isReplaced = !isLeftToInner && this.#replaceError(status, error, observer, outer)
          if (isReplaced) answer.resolve()
          else answer.reject(error)
        } catch (thrown) {
          answer.reject(thrown)
        }
        stopWatching()
        resolve({ type: 'failed', status, error })
      }
      // Otherwise a handler that never returns, and whose client has left, would never end this
      // run.
      endsInTime(res, this.#next(), ended, failed)
    })
  }

  /** Captures the response in ctx, and ends the run. Koa may go on before the capture ends. */
  #capture(
    observer: OriginObserver,
    outer: OuterFields,
    answer: Answer,
    resolve: (end: OriginEnd | Promise<OriginEnd>) => void,
  ): void {
    const ctx = this.native
    try {
      const { end, reply } = captureContext(ctx, observer, outer, this.#isSeen)
      const replace = async (): Promise<OriginEnd> => {
        const ended = await end
        if (reply !== undefined) replyWith(ctx, reply, this.#isSeen, outer)
        return ended
      }
      const ending = reply === undefined ? end : replace().finally(answer.resolve)
      endUnlessPersonal(ctx.res, ending, resolve)
      // Koa reads the stream whose end the capture awaits.
      if (reply === undefined) answer.resolve()
    } catch (error) {
      // The capture failed, for example because a body throws when it is read. The client gets the
      // response of the app.
      answer.resolve()
      resolve({ type: 'failed', status: 500, error })
    }
  }

  /**
   * Returns true if core sends a reply in place of the error. The 'error' listeners of the app are
   * called in both cases.
   */
  #replaceError(
    status: number,
    error: unknown,
    observer: OriginObserver,
    outer: OuterFields,
  ): boolean {
    const ctx = this.native
    if (ctx.headerSent || ctx.respond === false) return false
    const decision = observer.onHead({ status, headers: [] }, undefined, [ctx, ctx.response])
    if (decision.action === 'send') {
      addAtHead(ctx.res, decision.add)
      return false
    }
    if (!replyWith(ctx, decision.reply, this.#isSeen, outer)) return false
    const hasListener = error instanceof Error && ctx.app.listenerCount('error') > 0
    if (hasListener) ctx.app.emit('error', error, ctx)
    return true
  }
}

/** The status that ctx.onerror will give to this error. */
function statusOf(ctx: Context, error: unknown): number {
  const fields: { status?: unknown; statusCode?: unknown; code?: unknown } = Object(error)
  if (fields.code === 'ENOENT' && !isKoa3(ctx)) return 404
  const status = Number(fields.status || fields.statusCode)
  return STATUS_CODES[status] === undefined ? 500 : status
}

/**
 * Ends the run when the head is sent. The run is complete only if its head has no cookie. Session
 * middlewares in front set a cookie when Koa writes the head, after the cache has returned.
 */
function endUnlessPersonal(
  res: ServerResponse,
  ending: Promise<OriginEnd> | OriginEnd,
  resolve: (end: OriginEnd | Promise<OriginEnd>) => void,
): void {
  const isComplete = ({ type }: OriginEnd): boolean => type === 'complete' || type === 'replaced'
  if (ending instanceof Promise) {
    ending.then(
      (end) => isComplete(end) || resolve(end),
      (error) => resolve({ type: 'failed', status: 500, error }),
    )
  } else if (!isComplete(ending)) return resolve(ending)
  onHeadSent(res, (isSent) => {
    // If the head has a cookie, the run ends now, so that waiters need not wait for the body.
    if (isSent) resolve(setsCookie(res) ? DECLINED : ending)
    else resolve(INCOMPLETE)
  })
}
