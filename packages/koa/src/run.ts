// One run of the handler for a fill. After `await next()`, ctx has the response and nothing is
// written yet. A run whose response can be stored ends after Koa has sent the head, because session
// middlewares in front set a cookie then, after the cache has returned.

import { Readable } from 'node:stream'
import type { OriginEnd, OriginObserver, Reply } from '@stampede/core/adapter'
import {
  Capture,
  Departure,
  editFields,
  isSendable,
  isWrapped,
  OuterFields,
  SentHead,
} from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { captureBody, keptKind, readResponse, replaceBody, replyWith, sendPart } from './body.ts'
import { statusOf } from './context.ts'

type NotCaptured = Extract<OriginEnd, { type: 'not-captured' }>['reason']

const notCaptured = (reason: NotCaptured): OriginEnd => ({ type: 'not-captured', reason })
const DECLINED = notCaptured('declined')
/** After the client has left. Koa writes nothing before the handler has returned. */
const ANSWER_WITHIN_MS = 30_000

export class KoaRun {
  readonly departure: Departure
  readonly #ctx: Context
  readonly #observer: OriginObserver
  /** Whether a layer in front can read ctx.body: see `Visit`. */
  readonly #isSeen: boolean
  /** Fields that were set before the handler runs. */
  readonly #outer: OuterFields
  readonly #head: SentHead
  readonly #guard: Capture | undefined
  /** Set before the handler runs, if the conditions of the client are hidden. */
  showConditionals: (() => void) | undefined
  #isLeftToInner = false
  /** The end of the capture, unless the head gets a cookie. Set while the capture may still run. */
  #ending: OriginEnd | Promise<OriginEnd> | undefined

  /** Create it before the handler runs. Listeners added later run after those of the run. */
  constructor(ctx: Context, observer: OriginObserver, bodyIsSeen: boolean) {
    const { res } = ctx
    this.#ctx = ctx
    this.#observer = observer
    this.#isSeen = bodyIsSeen
    this.#outer = new OuterFields(res)
    this.departure = new Departure(res, this, { graceMs: ANSWER_WITHIN_MS, onEnd: observer.onEnd })
    this.#head = new SentHead(res, this)
    this.#guard = observer.conditions && guardNotModified(ctx, observer)
  }

  /** An inner cache takes the response. */
  leaveToInner(): void {
    this.#isLeftToInner = true
    this.#guard?.stop()
  }

  /** The handler is no longer waited for, because its client has left. */
  givenUp(): void {
    this.#stop()
    this.#settle(notCaptured(this.#ctx.res.writableEnded ? 'detached' : 'incomplete'))
  }

  /** Call this when the handler has returned. Koa may go on after it. */
  passed(): void | Promise<void> {
    if (this.departure.isOver) return
    this.#stop()
    if (this.#isLeftToInner) return this.#settle(DECLINED)
    try {
      return this.#capture()
    } catch (error) {
      // The capture failed, for example because a body throws when it is read. The client gets the
      // response of the app.
      this.#settle({ type: 'failed', status: 500, error })
    }
  }

  /**
   * Call this when the handler has thrown. Returns whether a reply replaces the error. The 'error'
   * listeners of the app get an Error in both cases.
   */
  replaces(error: unknown): boolean {
    if (this.departure.isOver) return false
    const ctx = this.#ctx
    const status = statusOf(ctx, error)
    this.#stop()
    this.#settle({ type: 'failed', status, error })
    if (this.#isLeftToInner || ctx.headerSent || ctx.respond === false) return false
    const decision = this.#observer.onHead({ status, headers: [] }, undefined, [ctx, ctx.response])
    if (decision.action === 'send') {
      this.#head.add = decision.add
      return false
    }
    if (!replyWith(ctx, decision.reply, this.#outer)) return false
    const { app } = ctx
    if (error instanceof Error && app.listenerCount('error') > 0) app.emit('error', error, ctx)
    return true
  }

  #settle(end: OriginEnd | Promise<OriginEnd>): void {
    const { ended } = this.#observer
    if (end instanceof Promise) end.then(ended)
    else process.nextTick(ended, end)
  }

  #stop(): void {
    this.departure.stop()
    this.showConditionals?.()
    if (this.#ctx.respond !== false) this.#guard?.stop()
  }

  /** Captures the response in ctx. Koa may go on before the capture ends. */
  #capture(): void | Promise<void> {
    const ctx = this.#ctx
    const { res, status } = ctx
    const observer = this.#observer
    const { headers, head, body } = readResponse(ctx, this.#outer)
    if (headers === undefined || head === undefined) return this.#settle(notCaptured('detached'))
    const decision = observer.onHead({ status, headers }, body?.bytes, [ctx, ctx.response])
    if (decision.action === 'replace') {
      const { reply } = decision
      if (!isSendable(reply)) return this.#settle(DECLINED)
      return this.#replace(reply, { type: 'replaced', head })
    }
    const { add, capture, instead } = decision
    this.#head.judged(add)
    editFields(res, add, decision.remove)
    // Otherwise Node would add a Date of its own, and the stored response could have another one.
    if (capture && !res.hasHeader('date'))
      for (const [name, value] of head.headers) if (name === 'date') res.setHeader(name, value)
    if (body === undefined) return this.#settle(DECLINED)
    const part = instead !== undefined && 'start' in instead ? instead : undefined
    const kind = capture && this.#isSeen ? keptKind(body) : undefined
    const tee = { head, maxBytes: capture ? observer.maxBodyBytes : 0, kind, part }
    const captured = capture || part !== undefined ? captureBody(ctx, body, tee) : DECLINED
    const end = capture ? captured : DECLINED
    if (part !== undefined) sendPart(ctx, body, part)
    else if (instead !== undefined && 'headers' in instead && isSendable(instead)) {
      if (capture && ctx.body instanceof Readable) ctx.body.resume()
      return this.#replace(instead, end)
    }
    // Koa need not serialize the object a second time.
    else if (!this.#isSeen && body.as === 'json' && !isWrapped(res)) replaceBody(ctx, body.bytes)
    this.#endAtHead(end)
  }

  /**
   * Sends a reply of core instead of the response in ctx. It waits for the end of the capture,
   * because Koa destroys a stream in ctx.body when it sends a 304.
   */
  #replace(reply: Reply, end: OriginEnd | Promise<OriginEnd>): void | Promise<void> {
    const send = (): void => void replyWith(this.#ctx, reply, this.#outer)
    this.#endAtHead(end)
    return end instanceof Promise ? end.then(send) : send()
  }

  /** Ends the run when the head is over, or at once if the response cannot be shared anyway. */
  #endAtHead(end: OriginEnd | Promise<OriginEnd>): void {
    if (end instanceof Promise)
      end.then((known) => known.type === 'not-captured' && this.#settle(known))
    else if (end.type === 'not-captured') return this.#settle(end)
    if (Departure.hasLeft(this.#ctx.res)) return this.#settle(notCaptured('incomplete'))
    this.#ending = end
    if (this.#head.isOver) this.headOver(this.#head.refusal)
  }

  /** If the head has a cookie, waiters need not wait for the body. */
  headOver(reason: SentHead['refusal']): void {
    if (this.#ending === undefined) return
    this.#settle(reason === undefined ? this.#ending : notCaptured(reason))
  }
}

/**
 * If the app itself writes to `res`, the response goes to its client unchanged. Only a 304 goes to
 * core first, because the cache may have set the conditions to which it replies.
 */
function guardNotModified(ctx: Context, observer: OriginObserver): Capture {
  return new Capture(ctx.res, {
    maxBodyBytes: observer.maxBodyBytes,
    ended: () => {},
    onHead: (head, whole) =>
      head.status === 304
        ? observer.onHead(head, whole, [ctx, ctx.response])
        : { action: 'send', capture: false, add: [], remove: [] },
  })
}
