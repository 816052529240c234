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
  watchReads,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { replyAtOnce, replyWith } from './body.ts'
import { KoaRun } from './run.ts'

/** An exchange whose middleware returns a promise to Koa. */
export interface Passing {
  /** Set when core has begun to respond: settles as soon as Koa may go on. */
  passed: Promise<void> | undefined
  /** Settles the promise of a middleware that returned before. */
  answer: Answer | undefined
}

interface Answer {
  resolve(passed?: void | Promise<void>): void
  reject(error: unknown): void
}

export const PASSED: Promise<void> = Promise.resolve()

export function goOnAfter(exchange: Passing, passed: Promise<void>): void {
  exchange.passed = passed
  exchange.answer?.resolve(passed)
}

/** The promise that a middleware returns. `handled`: core has finished. */
export function answerOf(exchange: Passing, handled: void | Promise<void>): Promise<void> {
  const { passed } = exchange
  if (handled === undefined) return passed ?? PASSED
  if (passed !== undefined) {
    handled.catch((error) => process.emitWarning(error instanceof Error ? error : String(error)))
    return passed
  }
  return new Promise((resolve, reject) => {
    exchange.answer = { resolve, reject }
    handled.then(() => {
      if (exchange.passed === undefined) resolve()
    }, reject)
  })
}

export class KoaExchange extends RequestExchange<Context> implements Exchange<Context>, Passing {
  passed: Passing['passed']
  answer: Passing['answer']
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

  forward(...[add, { onHead, onInner, onEnd } = {}]: Parameters<Exchange['forward']>): void {
    const ctx = this.native
    if (onInner !== undefined) enterOrigin(ctx.req, onInner)
    addAtHead(ctx.res, add, OWN_FIELDS)
    const headSet = onHead && watchHead(ctx.res, (head) => onHead(head, [ctx, ctx.response]))
    if (onEnd !== undefined) ctx.res.once('close', onEnd)
    const passed: Promise<void> = this.#next()
    // If the client has left, Koa writes no head, so the head in ctx is reported here.
    if (headSet !== undefined) passed.then(() => ctx.writable || headSet()).catch(() => {})
    goOnAfter(this, passed)
  }

  runOrigin(observer: OriginObserver): Promise<OriginEnd> {
    const run = new KoaRun(this.native, observer, this.#isSeen)
    this.run = run
    this.passed = this.inContext(() => {
      const passed: Promise<void> = this.#next()
      return passed.then(
        () => this.#goOn(run.passed()),
        (error: unknown) => (run.replaces(error) ? this.#goOn() : this.#fail(error)),
      )
    })
    return run.ended
  }

  // If a reply cannot be sent, the handler runs.

  send(reply: Reply): void {
    if (replyWith(this.native, reply, this.#isSeen)) goOnAfter(this, PASSED)
    else this.forward([])
  }

  sendReady(ready: ReadyReply): void {
    if (replyAtOnce(this.native, ready, this.#isSeen)) goOnAfter(this, PASSED)
    else this.forward([])
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

  #goOn(passed?: void | Promise<void>): void | Promise<void> {
    return this.answer === undefined ? passed : this.answer.resolve(passed)
  }

  #fail(error: unknown): void {
    if (this.answer === undefined) throw error
    this.answer.reject(error)
  }
}
