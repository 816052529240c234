// The layer of the cache around one ServerResponse. It wraps the methods of the response and
// captures the writes of the handler. Inner layers, nearer to the handler, wrap these methods
// again. So the methods are never unwrapped. After the end of the capture, they only call the
// original methods, which belong to Node or to outer layers.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, Natives, OriginEnd, Reply } from '@stampede/core/adapter'
import { Departure, hasLeft } from '../request/client-gone.ts'
import { BodyCollector, wholeBody } from './body.ts'
import { setsCookie, unlessRefused, whenWhole } from './head-sent.ts'
import { restoreFields } from './header-fields.ts'
import { type CaptureObserver, EndHold } from './hold-end.ts'
import { endOf, type JudgedHead, judgeHead, NO_HEAD } from './judge-head.ts'
import { OuterFields } from './outer-fields.ts'
import { Turns } from './turns.ts'
import { type Method, type OwnMethods, WrappedMethods } from './wrapped-methods.ts'
import { chunkFor, discardWrite, isNodesWriteHead, writeReply } from './write-response.ts'

export interface ResponseCapture {
  /** Resolves once the outcome is known, which may be before the end of the body. */
  readonly ended: Promise<OriginEnd>
  /** Whether the client left before its response ended. */
  isLeft(): boolean
  /** Stops the capture. Its outcome is then `declined`, unless the outcome is known already. */
  stop(): void
}

const INCOMPLETE: OriginEnd = { type: 'not-captured', reason: 'incomplete' }

export class ResponseLayer implements ResponseCapture {
  readonly ended: Promise<OriginEnd>
  readonly #res: ServerResponse
  readonly #observer: CaptureObserver
  readonly #natives: Natives | undefined
  readonly #methods: WrappedMethods
  /** Fields that outer middlewares have set. On a hit, these middlewares set them again. */
  readonly #outer: OuterFields
  readonly #body: BodyCollector
  readonly #departure: Departure
  readonly #turns: Turns
  readonly #hold: EndHold | undefined
  #resolve: (end: OriginEnd | Promise<OriginEnd>) => void = () => {}
  /** `judged`: core has the head, and the outer layers do not have it yet. */
  #phase: 'head' | 'judged' | 'body' | 'settled' | 'replaced' = 'head'
  #head: JudgedHead = NO_HEAD
  /** The whole body, if end() is the first write. */
  #whole: Uint8Array | undefined
  #probing = false
  #ended = false

  constructor(res: ServerResponse, observer: CaptureObserver, natives?: Natives) {
    this.#res = res
    this.#observer = observer
    this.#natives = natives
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#hold = observer.beforeEnd && new EndHold(res, observer.beforeEnd.bind(observer))
    this.#methods = new WrappedMethods(res)
    this.#turns = new Turns(res)
    this.#outer = new OuterFields(res)
    this.#body = new BodyCollector(observer.maxBodyBytes)
    const on = {
      closed: () => this.#closed(),
      givenUp: (piped: boolean) => this.#givenUp(piped),
    }
    this.#departure = new Departure(res, on, observer.graceMs)
    this.#install(res)
  }

  isLeft(): boolean {
    return this.#departure.left
  }

  stop(): void {
    this.#decline('declined')
  }

  /** The methods are assigned one by one, so that responses share a hidden class of V8. */
  #install(res: OwnMethods): void {
    res.writeHead = this.#ownWriteHead
    res.write = (...args: unknown[]) => this.#write(args)
    res.end = (...args: unknown[]) => this.#end(args)
    res.flushHeaders = (...args: unknown[]) => this.#flushHeaders(args)
    res.destroy = (...args: unknown[]) => {
      this.#departure.destroyedByApp()
      return this.#pass('destroy', args)
    }
  }

  #givenUp(piped: boolean): void {
    // The observer needs the head, even if no byte of the piped source was written.
    if (piped && this.#hold !== undefined && this.#phase === 'head')
      this.#judge([this.#res.statusCode])
    this.#decline(this.#res.writableEnded && !this.#ended ? 'detached' : 'incomplete')
  }

  readonly #ownWriteHead = (...args: unknown[]): unknown => {
    // If an outer layer passes only a status, the head that core decided on is sent.
    if (this.#phase === 'judged') return this.#sendHead(args.length > 1 ? args : this.#head.args)
    if (this.#phase !== 'head' || this.#res.headersSent) return this.#pass('writeHead', args)
    return this.#judge(args) && !this.#probing ? this.#sendHead(this.#head.args) : this.#res
  }

  /** Asks core about the head. False if core has replaced the response and sent another one. */
  #judge(args: readonly unknown[]): boolean {
    const judged = judgeHead(
      this.#res,
      args,
      this.#observer,
      this.#outer,
      this.#whole,
      this.#natives,
    )
    if ('replacement' in judged) {
      this.#replace(judged.replacement, judged.of)
      return false
    }
    this.#phase = 'judged'
    this.#head = judged
    if (judged.cut) this.#methods.cut(judged.cut)
    return true
  }

  #sendHead(args: readonly unknown[]): unknown {
    this.#phase = 'body'
    let returned: unknown
    try {
      returned = this.#pass('writeHead', args)
    } catch (error) {
      // Node rejected the head, so no head was sent. The app may still send another response.
      if (this.#hold !== undefined) this.#phase = 'head'
      else this.#decline('declined')
      throw error
    }
    // A response is not shared if an outer layer, such as a session, has set a cookie while the
    // head was written.
    const shared = this.#hold !== undefined || this.#head.cookie || !this.#hasNewCookie(args)
    if (!this.#head.keep || !shared) this.#decline('declined')
    else if (this.#ended) this.#finish()
    else {
      // Outer layers may make the response private after this turn. Waiters then need no body.
      this.#observer.refusal?.then((reason) => {
        if (reason !== undefined) this.#decline(reason)
      })
    }
    return returned
  }

  /** Whether an outer layer has set a cookie on the head that was sent with `args`. */
  #hasNewCookie(args: readonly unknown[]): boolean {
    const isAsJudged =
      args === this.#head.args && isNodesWriteHead(this.#methods.original.writeHead)
    if (!isAsJudged) return setsCookie(this.#res)
    return this.#res.hasHeader('set-cookie') || this.#res.hasHeader('set-cookie2')
  }

  // Asks core about an implicit head before the outer layers run. If core replaces the response,
  // the replacement can then still pass through all of them. This calls `res.writeHead`, so the
  // hooks of inner layers run now. Nothing is sent yet.
  #openHead(whole?: Uint8Array): void {
    if (this.#phase !== 'head' || this.#res.headersSent) return
    this.#probing = !this.#departure.gone
    this.#whole = whole
    try {
      this.#res.writeHead(this.#res.statusCode)
    } finally {
      this.#probing = false
      this.#whole = undefined
    }
  }

  #write(args: readonly unknown[]): unknown {
    if (this.#phase === 'settled' || this.#methods.inside) return this.#pass('write', args)
    this.#departure.wrote()
    this.#openHead()
    if (this.#isShut()) return discardWrite(args, true)
    const more = this.#through('write', this.#outward('write', args))
    this.#keep(args)
    // Waiters need the whole body, so a slow client must not delay the handler. After a client has
    // left, there is no `drain` at all. maxBodyBytes bounds the buffer.
    return this.#phase === 'body' ? this.#turns.mayGoOn(this.#body.bytes) : more
  }

  #end(args: readonly unknown[]): unknown {
    if (this.#phase === 'settled' || this.#methods.inside) return this.#pass('end', args)
    const whole = this.#phase === 'head' ? wholeBody(args) : undefined
    this.#openHead(whole)
    if (this.#isShut()) return discardWrite(args, this.#res)
    if (this.#hold?.takes(args, this.#head.args))
      return this.#endWhenObserved(this.#hold, args, whole)
    const returned = this.#through('end', this.#outward('end', args))
    this.#keep(args, whole)
    this.#ended = true
    // Koa 3 ends a response without its body if the client is gone.
    if (this.#departure.gone && this.#body.bytes === 0) this.#decline('incomplete')
    // If an outer layer delays the head and the end, the phase is not `body` yet. A session
    // middleware does so until it has saved its session.
    if (this.#phase === 'body') this.#finish()
    return returned
  }

  #endWhenObserved(
    hold: EndHold,
    args: readonly unknown[],
    whole: Uint8Array | undefined,
  ): unknown {
    this.#collect(args, whole)
    this.#ended = true
    this.#departure.stop()
    const end = endOf(this.#head.stored, this.#body, this.#res.req.method)
    hold.end(end, args, (own) => {
      this.#through('end', own)
      this.#settle(end)
    })
    return this.#res
  }

  #flushHeaders(args: readonly unknown[]): unknown {
    if (!this.#methods.inside) this.#openHead()
    return this.#isShut() ? undefined : this.#through('flushHeaders', args)
  }

  #isShut(): boolean {
    return this.#phase === 'replaced' || this.#hold?.active === true
  }

  #pass(method: Method, args: readonly unknown[]): unknown {
    return this.#methods.pass(method, args)
  }

  /**
   * The arguments for outer layers. They have a copy of the chunk if an outer layer may change it
   * in place, because the entry must have the bytes of the handler.
   */
  #outward(method: 'write' | 'end', args: readonly unknown[]): readonly unknown[] {
    const chunk = chunkFor(this.#methods.original[method], args[0])
    return chunk === args[0] ? args : [chunk, ...args.slice(1)]
  }

  #through(method: Method, args: readonly unknown[]): unknown {
    const ownHead = this.#phase === 'judged' ? this.#ownWriteHead : undefined
    try {
      return this.#methods.through(method, args, ownHead)
    } catch (error) {
      // No head was sent. The app may still send another response with a head of its own.
      if (this.#hold !== undefined && this.#phase === 'judged') this.#phase = 'head'
      throw error
    }
  }

  /**
   * Called when the response was closed. If the app had ended the response, core may still have to
   * be asked about its head.
   */
  #closed(): void {
    if (!this.#ended) return
    this.#openHead()
    if (this.#phase === 'judged' && !this.#res.headersSent) this.#sendHead(this.#head.args)
    this.#decline('detached')
  }

  #keep(args: readonly unknown[], whole?: Uint8Array): void {
    if (this.#phase === 'settled' || this.#phase === 'replaced') return
    if (!this.#collect(args, whole)) this.#decline('too-large')
  }

  /**
   * Adds a chunk to the capture. `whole` has the bytes of the chunk. The bytes of a string are in a
   * buffer of this package, so they need no copy.
   */
  #collect([chunk, encoding]: readonly unknown[], whole?: Uint8Array): boolean {
    return whole !== undefined && typeof chunk === 'string'
      ? this.#body.addOwn(whole)
      : this.#body.add(chunk, encoding)
  }

  #finish(): void {
    this.#settle(endOf(this.#head.stored, this.#body, this.#res.req.method))
  }

  #decline(reason: 'declined' | 'too-large' | 'incomplete' | 'detached'): void {
    this.#settle({ type: 'not-captured', reason })
  }

  #replace(reply: Reply, head: CapturedHead): void {
    this.#phase = 'replaced'
    restoreFields(this.#res, this.#outer.list)
    let end: OriginEnd = { type: 'not-captured', reason: 'declined' }
    try {
      writeReply(this.#res, reply, this.#methods.original)
      // A cookie of an outer layer makes the response private, as for the app's own responses.
      if (!setsCookie(this.#res)) end = { type: 'replaced', head }
    } finally {
      this.#tell(end)
    }
  }

  #settle(end: OriginEnd): void {
    if (this.#phase === 'settled' || this.#phase === 'replaced') return
    this.#phase = 'settled'
    this.#tell(end)
    if (end.type === 'not-captured') this.#methods.release()
  }

  #tell(end: OriginEnd): void {
    this.#departure.stop()
    this.#body.drop()
    const { refusal } = this.#observer
    if (end.type === 'not-captured') this.#resolve(end)
    else if (hasLeft(this.#res)) this.#resolve(unlessRefused(end, refusal))
    else {
      whenWhole(this.#res, (isWhole) =>
        this.#resolve(isWhole ? unlessRefused(end, refusal) : INCOMPLETE),
      )
    }
  }
}
