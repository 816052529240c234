// The Exchange port over a Koa context. Koa writes the response only after all middlewares have
// returned. So the cache must return as soon as ctx has the response, even if core is still at
// work.

import type { Exchange, HttpCache, OriginObserver, Reply } from '@stampede/core/adapter'
import { RequestExchange } from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { replyWith } from './body.ts'
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

export class KoaExchange extends RequestExchange<Context> implements Passing {
  passed: Passing['passed']
  answer: Passing['answer']
  readonly #next: Next
  /** Whether a layer in front can read ctx.body: see isSeen(). */
  readonly #isSeen: boolean

  constructor(
    visit: KoaExchange['visit'],
    cache: HttpCache<Context>,
    next: Next,
    bodyIsSeen: boolean,
  ) {
    super(visit, cache)
    this.#next = next
    this.#isSeen = bodyIsSeen
  }

  forward(...args: Parameters<Exchange['forward']>): void {
    const ctx = this.native
    const headSet = this.watchRun(ctx.response, ...args)
    const passed: Promise<void> = this.#next()
    // If the client has left, Koa writes no head, so the head in ctx is reported here.
    if (headSet !== undefined) passed.then(() => ctx.writable || headSet()).catch(() => {})
    goOnAfter(this, passed)
  }

  protected pass(): void {
    goOnAfter(this, this.#next())
  }

  runOrigin(observer: OriginObserver): void {
    observer.onReads?.(this.#reads())
    const run = new KoaRun(this.native, observer, this.#isSeen)
    this.run = run
    this.passed = this.inContext(() => {
      const passed: Promise<void> = this.#next()
      return passed.then(
        () => this.#goOn(run.passed()),
        (error: unknown) => (run.replaces(error) ? this.#goOn() : this.#fail(error)),
      )
    })
  }

  /** Runs the handler if the reply cannot be sent. */
  send(reply: Reply): void {
    if (replyWith(this.native, reply, this.#isSeen)) goOnAfter(this, PASSED)
    else this.forward([])
  }

  #reads(): ReturnType<KoaExchange['recordReads']> {
    const reads = this.recordReads(this.native.request)
    reads.watch(this.native, 'ctx')
    // The rest runs in layers in front of the cache.
    reads.endsAtHead = true
    return reads
  }

  #goOn(passed?: void | Promise<void>): void | Promise<void> {
    return this.answer === undefined ? passed : this.answer.resolve(passed)
  }

  #fail(error: unknown): void {
    if (this.answer === undefined) throw error
    this.answer.reject(error)
  }
}
