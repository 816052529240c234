// stampedeCache() for Koa 2 and 3.

import type { CacheOptions } from '@stampede/core'
import {
  createHttpCache,
  type Exchange,
  type OriginObserver,
  type Reply,
} from '@stampede/core/adapter'
import { MountOrder, RequestExchange } from '@stampede/node-http/adapter'
import type { Context, default as Koa } from 'koa'
import { replyWith } from './body.ts'
import { FACTS, layersOf, Pause, type Uncalled, type Visit, visitOf } from './context.ts'
import { KoaRun } from './run.ts'

/**
 * Returns a middleware that caches responses to GET and HEAD. On a miss, one request runs the next
 * middlewares. Other requests for the same key wait for that response. Mount it for an app, a
 * router or a route.
 *
 * @example
 * router.get('/products', stampedeCache({ ttlMs: 10_000 }), listProducts)
 */
export function stampedeCache(
  options?: CacheOptions<Koa.Context, Koa.Response>,
  ..._uncalled: Uncalled
): Koa.Middleware {
  const cache = createHttpCache<Koa.Context, Koa.Response>(options, FACTS)
  const order = new MountOrder('stampedeCache')
  // Not async, so that a hit creates no promise. If this function throws, Koa turns the exception
  // into a rejection.
  return function stampedeCache(ctx: Koa.Context, next: Koa.Next): Promise<void> {
    if (!order.isDone) {
      order.see(ctx.req, ctx.res, (methods) => {
        cache.mountedIn(ctx.app)
        return layersOf(ctx.app, stampedeCache, methods)
      })
    }
    const exchange = new KoaExchange(visitOf(ctx, next, stampedeCache), cache)
    return exchange.pause.promise(exchange.enter(ctx.response))
  }
}

/** The Exchange port over a Koa context. */
class KoaExchange extends RequestExchange<Context, Visit> {
  readonly pause = new Pause()

  forward(...args: Parameters<Exchange['forward']>): void {
    const ctx = this.native
    const headSet = this.watchRun(ctx.response, ...args)
    const passed: Promise<void> = this.visit.next()
    // If the client has left, Koa writes no head, so the head in ctx is reported here.
    if (headSet !== undefined) passed.then(() => ctx.writable || headSet()).catch(() => {})
    this.pause.until(passed)
  }

  protected pass(): void {
    this.pause.until(this.visit.next())
  }

  runOrigin(observer: OriginObserver): void {
    const { pause, visit } = this
    const run = new KoaRun(this.native, observer, visit.bodyIsSeen)
    run.showConditionals = this.prepareRun(observer, () => run.leaveToInner())
    this.run = run
    pause.passed = this.inContext(() =>
      (visit.next() as Promise<void>).then(
        () => pause.end(run.passed()),
        (error: unknown) => (run.replaces(error) ? pause.end() : pause.fail(error)),
      ),
    )
  }

  /** Runs the handler if the reply cannot be sent. */
  send(reply: Reply): void {
    // Koa writes nothing after the end of a response. If no layer in front can read ctx, a hit that
    // does not go through ctx takes a fifth less CPU.
    const isSent = this.visit.bodyIsSeen ? replyWith(this.native, reply) : this.write(reply)
    if (isSent) this.pause.until()
    else this.forward([])
  }
}
