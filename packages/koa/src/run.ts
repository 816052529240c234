// One run of the handler for a fill. After `await next()`, ctx has the response and nothing is
// written yet. A run whose response can be stored ends after Koa has sent the head, because session
// middlewares in front set a cookie then, after the cache has returned.

import { Readable } from 'node:stream'
import {
  type HeaderList,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type Reply,
} from '@stampede/core/adapter'
import {
  ANSWER_WITHIN_MS,
  addAtHead,
  applyFields,
  BodyCut,
  type Capture,
  correctStored,
  editWriteHead,
  enterOrigin,
  hasLeft,
  hideConditionals,
  isSendable,
  isWrapped,
  missingDate,
  nodesWriteHead,
  OuterFields,
  setsCookie,
} from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { statusOf } from './address.ts'
import {
  captureBody,
  fieldsFor,
  INCOMPLETE,
  isDetached,
  keptKind,
  readKoaBody,
  replaceBody,
  replyWith,
} from './body.ts'
import { guardNotModified } from './not-modified.ts'
import { sendPart } from './part.ts'

const DECLINED: OriginEnd = { type: 'not-captured', reason: 'declined' }
const DETACHED: OriginEnd = { type: 'not-captured', reason: 'detached' }

export class KoaRun {
  readonly ended: Promise<OriginEnd>
  #settle: (end: OriginEnd | Promise<OriginEnd>) => void = () => {}
  readonly #ctx: Context
  readonly #observer: OriginObserver
  /** Whether a layer in front can read ctx.body: see isSeen(). */
  readonly #isSeen: boolean
  /** Fields that were set before the handler runs. */
  readonly #outer: OuterFields
  readonly #showConditionals: (() => void) | undefined
  readonly #guard: Capture | undefined
  #isLeftToInner = false
  #hasLeft: boolean
  /** Whether the handler has returned, or is no longer waited for. */
  #isOver = false
  #timer: NodeJS.Timeout | undefined
  /** The end of the capture, unless the head gets a cookie. Set while the capture may still run. */
  #ending: OriginEnd | Promise<OriginEnd> | undefined
  /** Whether no layer gets the head after this run. */
  #isLast = false
  /** Fields of the cache that are wrong if the head gets a cookie. */
  #added: HeaderList | undefined

  /** Create it before the handler runs. Listeners added later run after those of the run. */
  constructor(ctx: Context, observer: OriginObserver, bodyIsSeen: boolean) {
    const { req, res } = ctx
    this.#ctx = ctx
    this.#observer = observer
    this.#isSeen = bodyIsSeen
    this.#outer = new OuterFields(res)
    this.ended = new Promise((resolve) => {
      this.#settle = resolve
    })
    this.#hasLeft = hasLeft(res)
    if (this.#hasLeft) this.#wait()
    res.once('close', () => this.#closed())
    this.#watchHead()
    this.#showConditionals = hideConditionals(req, observer.conditions)
    this.#guard = observer.conditions && guardNotModified(ctx, observer)
    enterOrigin(req, (inner) => {
      const add = observer.onInner?.(inner)
      if (add === undefined) return undefined
      this.#isLeftToInner = true
      this.#guard?.stop()
      this.#showConditionals?.()
      addAtHead(res, add)
      return add
    })
  }

  /** Whether the client left before the response ended. */
  isLeft(): boolean {
    return this.#hasLeft
  }

  /** Call this when the handler has returned. Koa may go on after it. */
  passed(): void | Promise<void> {
    if (this.#isOver) return
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

  /** Call this when the handler has thrown. Returns whether a reply replaces the error. */
  replaces(error: unknown): boolean {
    if (this.#isOver) return false
    const status = statusOf(this.#ctx, error)
    try {
      return !this.#isLeftToInner && this.#replaceError(status, error)
    } finally {
      this.#stop()
      this.#settle({ type: 'failed', status, error })
    }
  }

  #stop(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#showConditionals?.()
    if (this.#ctx.respond !== false) this.#guard?.stop()
  }

  /** Captures the response in ctx. Koa may go on before the capture ends. */
  #capture(): void | Promise<void> {
    const ctx = this.#ctx
    const { res, status } = ctx
    const observer = this.#observer
    if (isDetached(ctx)) return this.#settle(DETACHED)
    const body = readKoaBody(ctx)
    const headers = fieldsFor(ctx, body)
    const decision = observer.onHead({ status, headers }, body?.bytes, [ctx, ctx.response])
    const date = missingDate(headers)
    const head = this.#outer.storedHead(status, headers, date)
    if (decision.action === 'replace') {
      const { reply } = decision
      if (!isSendable(reply)) return this.#settle(DECLINED)
      return this.#replace(reply, { type: 'replaced', head })
    }
    const { add, capture, instead } = decision
    this.#correctAtHead(add)
    const isPart = instead !== undefined && 'start' in instead
    const cut = isPart ? new BodyCut(instead.start, instead.end) : undefined
    const captured = (): OriginEnd | Promise<OriginEnd> => {
      if (body === undefined || !capture) return DECLINED
      const kind = this.#isSeen ? keptKind(body) : undefined
      return captureBody(ctx, body, head, observer.maxBodyBytes, kind, { cut })
    }
    if (instead !== undefined && !isPart && body !== undefined && isSendable(instead)) {
      const end = captured()
      const unread: unknown = ctx.body
      if (capture && unread instanceof Readable) unread.resume()
      return this.#replace(instead, end)
    }
    for (const name of decision.remove) if (res.hasHeader(name)) res.removeHeader(name)
    applyFields(res, add)
    if (capture && date.length > 0) applyFields(res, date)
    const end = captured()
    if (isPart && body !== undefined) sendPart(ctx, body, instead, capture ? undefined : cut)
    // Koa need not serialize the object a second time.
    else if (!this.#isSeen && body?.json !== undefined && !isWrapped(res))
      replaceBody(ctx, body.json)
    this.#endAtHead(end)
  }

  /**
   * Sends a reply of core instead of the response in ctx. It waits for the end of the capture,
   * because Koa destroys a stream in ctx.body when it sends a 304.
   */
  #replace(reply: Reply, end: OriginEnd | Promise<OriginEnd>): void | Promise<void> {
    const send = (): void => void replyWith(this.#ctx, reply, this.#isSeen, this.#outer)
    this.#endAtHead(end)
    return end instanceof Promise ? end.then(send) : send()
  }

  /**
   * Returns true if core sends a reply in place of the error. The 'error' listeners of the app get
   * an Error in both cases.
   */
  #replaceError(status: number, error: unknown): boolean {
    const ctx = this.#ctx
    if (ctx.headerSent || ctx.respond === false) return false
    const decision = this.#observer.onHead({ status, headers: [] }, undefined, [ctx, ctx.response])
    if (decision.action === 'send') {
      addAtHead(ctx.res, decision.add)
      return false
    }
    if (!replyWith(ctx, decision.reply, this.#isSeen, this.#outer)) return false
    const hasListener = error instanceof Error && ctx.app.listenerCount('error') > 0
    if (hasListener) ctx.app.emit('error', error, ctx)
    return true
  }

  /**
   * Removes the fields for this cache, even from a response that the app writes to `res` itself,
   * and ends the run once the head is sent.
   */
  #watchHead(): void {
    const { res } = this.#ctx
    const { writeHead } = res
    const own = (...received: unknown[]): unknown => {
      const args = res.headersSent ? received : editWriteHead(res, received, [], OWN_FIELDS)
      const mayHaveCookie = args.length > 1 || COOKIES.some((name) => res.hasHeader(name))
      if (this.#added !== undefined && mayHaveCookie) correctStored(res, this.#added)
      try {
        return Reflect.apply(writeHead, res, args)
      } finally {
        if (res.headersSent) this.#endNow()
      }
    }
    Object.assign(res, { writeHead: own })
    this.#isLast = writeHead === nodesWriteHead
    // A layer, or HTTP/2, may write the head without this writeHead.
    if (!this.#isLast) res.once('finish', () => this.#endNow())
  }

  #correctAtHead(added: HeaderList): void {
    if (this.#isLast) this.#added = added
    else correctStored(this.#ctx.res, added)
  }

  #endAtHead(end: OriginEnd | Promise<OriginEnd>): void {
    const { res } = this.#ctx
    if (end instanceof Promise) end.then((known) => isWhole(known) || this.#settle(known))
    else if (!isWhole(end)) return this.#settle(end)
    this.#ending = end
    if (res.headersSent || hasLeft(res)) this.#endNow()
  }

  /** The head was sent, or never will be. With a cookie, waiters need not wait for the body. */
  #endNow(): void {
    if (this.#ending === undefined) return
    const { res } = this.#ctx
    if (!res.headersSent) return this.#settle(INCOMPLETE)
    this.#settle(setsCookie(res) ? DECLINED : this.#ending)
  }

  #closed(): void {
    this.#hasLeft ||= !this.#ctx.res.writableEnded
    this.#observer.onEnd?.()
    if (this.#isOver) this.#endNow()
    else this.#wait()
  }

  /** Ends the run later if the handler never returns after its client has left. */
  #wait(): void {
    this.#timer ??= setTimeout(() => {
      this.#stop()
      this.#settle(INCOMPLETE)
    }, ANSWER_WITHIN_MS).unref()
  }
}

const COOKIES = ['set-cookie', 'set-cookie2']

const isWhole = ({ type }: OriginEnd): boolean => type === 'complete' || type === 'replaced'
