// The Exchange port over a Koa context. Koa writes the response only after all middlewares have
// returned. So the cache must return as soon as ctx has the response, even if core is still at
// work.

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
  enterOrigin,
  RequestExchange,
  type RequestVisit,
  watchHead,
  watchLeft,
  watchReads,
} from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { replyAtOnce, replyWith } from './koa-reply.ts'
import { type KoaCall, runApp } from './koa-run.ts'
import { createReturnPromise, type ReturnPromise } from './return-promise.ts'

export class KoaExchange extends RequestExchange<Context> implements Exchange<Context> {
  readonly #call: KoaCall
  #answer: ReturnPromise | undefined

  constructor(call: KoaCall, visit: RequestVisit<Context>, request: RequestView, owner: object) {
    super(visit, request, owner)
    this.#call = call
  }

  /**
   * Resolves when ctx has the response. Rejects with the error of the app. Undefined if ctx got the
   * response synchronously.
   */
  get answered(): Promise<void> | undefined {
    return this.#answer?.promise
  }

  override prepare(): void {
    super.prepare()
    this.#answer = createReturnPromise()
  }

  forward(
    ...[add, { onHead, onInner, onEnd } = {}]: Parameters<Exchange['forward']>
  ): Promise<void> {
    const { ctx, next } = this.#call
    const answer = this.#begin()
    if (onInner !== undefined) enterOrigin(ctx.req, onInner)
    addAtHead(ctx.res, add, OWN_FIELDS)
    const headSet = onHead && watchHead(ctx.res, (head) => onHead(head, [ctx, ctx.response]))
    if (onEnd !== undefined) ctx.res.once('close', onEnd)
    const passed: Promise<void> = next()
    // If the client has left, Koa writes no head, so the head in ctx is reported here.
    passed.then(() => ctx.writable || headSet?.()).catch(() => {})
    passed.then(answer.resolve, answer.reject)
    return passed
  }

  runOrigin(observer: OriginObserver): Promise<OriginEnd> {
    const { ctx } = this.#call
    const answer = this.#begin()
    this.goneIf(watchLeft(ctx.res))
    if (observer.onEnd !== undefined) ctx.res.once('close', observer.onEnd)
    return this.inContext(() => runApp(this.#call, observer, answer))
  }

  send(reply: Reply): void {
    const { ctx, bodyIsSeen: seen } = this.#call
    this.#begin()
    this.#sent(replyWith(ctx, reply, seen))
  }

  sendReady(ready: ReadyReply): void {
    const { ctx, bodyIsSeen: seen } = this.#call
    if (this.#answer !== undefined) this.#begin()
    this.#sent(replyAtOnce(ctx, ready, seen))
  }

  watchReads(): ReadLog {
    const { ctx } = this.#call
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

  /**
   * Call this when core has finished or failed. It settles `answered` if there is an error, or if
   * core has not begun to respond. The middleware then returns.
   */
  close(error?: unknown): void {
    const answer = this.#answer
    if (error !== undefined) answer?.reject(error)
    else if (answer?.begun === false) answer.resolve()
  }

  #begin(): ReturnPromise {
    this.#answer ??= createReturnPromise()
    this.#answer.begun = true
    return this.#answer
  }

  /** Runs the handler if the reply could not be sent. */
  #sent(isSent: boolean): void {
    if (isSent) this.#answer?.resolve()
    else this.forward([]).catch(() => {})
  }
}
