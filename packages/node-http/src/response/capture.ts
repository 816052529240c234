// Captures a response while it is written, by wrapping the methods of its ServerResponse.
//
// A layer is code that wraps the methods of a response, such as a compressor. Inner layers are
// nearer to the handler, outer layers nearer to the client. Core gets the head in writeHead, which
// Node also calls for an implicit head. Then inner layers have set all fields, and outer layers
// have not begun. A response is complete if the wrapped end() ran and the number of bytes agrees
// with Content-Length. The `finish` event proves neither, because it also fires after aborts.
//
// Inner layers wrap the methods again, so the methods are never unwrapped. After the end of the
// capture they only call the original methods, which belong to Node or to outer layers.

import type { ServerResponse } from 'node:http'
import {
  type CapturedHead,
  type HeaderList,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type Reply,
} from '@stampede/core/adapter'
import { Departure, hasLeft, whenWhole } from '../request/client-gone.ts'
import {
  BodyCollector,
  BodyCut,
  declaredLength,
  type NotCaptured,
  notCaptured,
  Turns,
  wholeBody,
} from './body.ts'
import type { Call, CaptureObserver, CaptureOptions, EndHold } from './capture-options.ts'
import {
  argsBelow,
  editFields,
  fieldsOf,
  hasField,
  missingDate,
  OuterFields,
  passedIn,
  restoreFields,
  setPassedFields,
  withStatus,
} from './fields.ts'
import { correctStored, headersSentError, setsCookie } from './head.ts'
import { discardWrite, OriginalMethods, type OwnMethods } from './original-methods.ts'
import { headInstead, isSendable, writeReply } from './write-response.ts'

type Instead = Extract<ReturnType<OriginObserver['onHead']>, { action: 'send' }>['instead']
/** Used if Node would reject the reply of core. */
const UNSENDABLE = { capture: false, add: [], remove: OWN_FIELDS, instead: undefined }
const NONE: readonly never[] = []

const discardHints = (...args: readonly unknown[]): void => discardWrite(args, undefined)

/** The layer of this package around one response. Create it before the app runs. */
export class Capture {
  readonly #res: ServerResponse
  readonly #observer: CaptureObserver
  readonly #options: CaptureOptions
  readonly #original: OriginalMethods
  /** Fields that outer middlewares have set. On a hit, these middlewares set them again. */
  readonly #outer: OuterFields
  readonly #body: BodyCollector
  readonly departure: Departure
  readonly #hold: EndHold | undefined
  readonly #ownWriteHead: OwnMethods['writeHead']
  /** `judged`: core has the head, and the outer layers do not have it yet. */
  #phase: 'head' | 'judged' | 'body' | 'settled' | 'replaced' = 'head'
  #probing = false
  #ended = false
  /** The whole body, if end() is the first write. */
  #whole: Uint8Array | undefined
  #turns: Turns | undefined
  /** Arguments for writeHead, after core's decision. */
  #args: readonly unknown[] = NONE
  #added: HeaderList = NONE
  /** The head that a hit replays. Undefined: core does not want the body. */
  #stored: CapturedHead | undefined
  #hasCookie = false

  constructor(res: ServerResponse, observer: CaptureObserver, options: CaptureOptions = {}) {
    this.#res = res
    this.#observer = observer
    this.#options = options
    this.#original = new OriginalMethods(res)
    this.#hold = options.hold
    this.#outer = options.outer ?? new OuterFields(res)
    this.#body = new BodyCollector(observer.maxBodyBytes)
    this.departure = new Departure(res, this, observer)
    this.#ownWriteHead = this.#writeHead.bind(this)
    if (res.headersSent) this.stop('detached')
    else this.#install(res)
  }

  /** The methods are assigned one by one, so that responses share a hidden class of V8. */
  #install(res: OwnMethods): void {
    res.writeHead = this.#ownWriteHead
    res.write = this.#write.bind(this)
    res.end = this.#end.bind(this)
    res.flushHeaders = this.#flushHeaders.bind(this)
    res.destroy = this.#destroy.bind(this)
    // Early hints would be sent before the response, and are of no use with it.
    if (this.#hold?.keeps) Object.assign(res, { writeEarlyHints: discardHints })
  }

  /** Stops the capture. Its outcome is then `reason`, unless the outcome is known already. */
  stop(reason: NotCaptured = 'declined'): void {
    this.#body.drop()
    this.#settle(notCaptured(reason))
  }

  /** Called when the response was closed. Core may not know the head of an ended response yet. */
  closed(): void {
    if (!this.#ended) return
    this.#openHead()
    if (this.#phase === 'judged' && !this.#res.headersSent) this.#writeHead(this.#res.statusCode)
    this.stop('detached')
  }

  givenUp(piped: boolean): void {
    // The observer needs the head, even if no byte of the piped source was written.
    if (piped && this.#hold !== undefined && this.#phase === 'head')
      this.#judge([this.#res.statusCode])
    this.stop(this.#res.writableEnded && !this.#ended ? 'detached' : 'incomplete')
  }

  #writeHead(...args: unknown[]): unknown {
    const hold = this.#hold
    if (hold?.active || hold?.unsend) throw headersSentError(this.#res)
    const phase = this.#phase
    const isFirst = phase === 'head' && !this.#res.headersSent
    if (isFirst) this.#options.beforeHead?.()
    // If Node refuses this head, the app may send another one, of which core is asked then.
    if (phase !== 'judged' && !(isFirst && setPassedFields(this.#res, args)))
      return this.#original.pass('writeHead', args)
    try {
      // If an outer layer passes only a status, the head that core decided on is sent.
      if (phase === 'judged') return this.#sendHead(args.length > 1 ? args : this.#args)
      if (!this.#judge(args) || this.#probing) return this.#res
      const isKept = hold?.keeps && hold.takes(NONE, args)
      return isKept ? hold.keep('writeHead', args) : this.#sendHead(this.#args)
    } catch (error) {
      // Node rejected the head, so no head was sent. The app may still send another response.
      if (this.#hold !== undefined) this.#phase = 'head'
      else this.stop()
      throw error
    }
  }

  /** Asks core about the head. False if core has replaced the response and sent another one. */
  #judge(args: readonly unknown[]): boolean {
    const res = this.#res
    const head = { status: Number(args[0]), headers: fieldsOf(res) }
    const decision = this.#observer.onHead(head, this.#whole, this.#options.natives)
    const date = missingDate(head.headers)
    const stored = this.#outer.storedHead(head.status, head.headers, date)
    if (decision.action === 'replace' && isSendable(decision.reply)) {
      this.#replace(decision.reply, stored)
      return false
    }
    const { capture, add, remove, instead } = decision.action === 'send' ? decision : UNSENDABLE
    const all = capture && res.sendDate && date.length > 0 ? [...add, ...date] : add
    this.#stored = capture ? stored : undefined
    this.#hasCookie = hasField(head.headers, 'set-cookie')
    this.#added = add
    this.#phase = 'judged'
    const isSent = instead !== undefined && ('start' in instead || isSendable(instead))
    if (!isSent) editFields(res, all, remove)
    const own = isSent && this.#argsOf(instead, all, remove, declaredLength(head) ?? 0)
    this.#args = own ? [...own, passedIn(args)] : args
    return true
  }

  /** The arguments for a 304, 416 or 206 in place of the handler's head. */
  #argsOf(
    instead: NonNullable<Instead>,
    add: HeaderList,
    remove: readonly string[],
    length: number,
  ): readonly unknown[] {
    const res = this.#res
    const isPart = 'start' in instead
    const cut = isPart ? new BodyCut(instead.start, instead.end) : new BodyCut(0, 0, instead.body)
    // Some layers destroy the connection when a source reports that its response ended early.
    const isCaptured = this.#stored !== undefined && !(length > this.#observer.maxBodyBytes)
    if (this.#original.cut(cut, length) && !isCaptured) res.shouldKeepAlive = false
    if (!isPart) return headInstead(res, instead, this.#outer)
    const replaced = instead.fields.map(([name]) => name)
    editFields(res, [...add, ...instead.fields], [...remove, ...replaced])
    return withStatus(res, instead.status)
  }

  #sendHead(args: readonly unknown[]): unknown {
    this.#phase = 'body'
    // Whether no code of a layer can add a cookie from here on.
    const isFinal =
      args === this.#args &&
      this.#original.isLast &&
      !(this.#res.hasHeader('set-cookie') || this.#res.hasHeader('set-cookie2'))
    const client = this.#options.sentAs ?? this.#res
    if (!isFinal || client !== this.#res) correctStored(client, this.#added)
    const left = args === this.#args ? argsBelow(this.#res, this.#original.isLast, args) : args
    const returned = this.#original.pass('writeHead', left)
    // A response is not shared if an outer layer, such as a session, has set a cookie while the
    // head was written.
    const shared = this.#hold !== undefined || this.#hasCookie || isFinal || !setsCookie(this.#res)
    if (this.#stored === undefined || !shared) this.stop()
    else if (this.#ended) this.#settle(this.#body.end(this.#stored, this.#res.req.method))
    return returned
  }

  // Asks core about an implicit head before the outer layers run. If core replaces the response,
  // the replacement can then still pass through all of them. This calls `res.writeHead`, so the
  // hooks of inner layers run now. Nothing is sent yet.
  #openHead(whole?: Uint8Array): void {
    if (this.#phase !== 'head' || this.#res.headersSent) return
    this.#probing = !this.departure.gone
    this.#whole = whole
    try {
      this.#res.writeHead(this.#res.statusCode)
    } finally {
      this.#probing = false
      this.#whole = undefined
    }
  }

  #write(...args: unknown[]): unknown {
    if (this.#phase === 'settled' || this.#original.isRunning)
      return this.#original.pass('write', args)
    this.departure.wrote()
    this.#openHead()
    if (this.#isShut()) return discardWrite(args, true)
    if (this.#hold && this.#body.bytes === 0) this.#original.cut(BodyCut.untilEnd(this.#stored))
    const more = this.#through('write', args)
    this.#keep(args, this.#hold?.ownChunk)
    // Waiters need the whole body, so a slow client must not delay the handler. After a client has
    // left, there is no `drain` at all. maxBodyBytes bounds the buffer.
    if (this.#phase !== 'body' && !this.#hold?.keeps) return more
    if (this.#hold?.isFull) return false
    this.#turns ??= new Turns(this.#res)
    return this.#turns.mayGoOn(this.#body.bytes)
  }

  #end(...args: unknown[]): unknown {
    if (this.#phase === 'settled' || this.#original.isRunning)
      return this.#original.pass('end', args)
    const whole = this.#phase === 'head' ? wholeBody(args) : undefined
    this.#openHead(whole)
    if (this.#isShut()) return discardWrite(args, this.#res)
    const head = this.#stored
    if (head !== undefined && this.departure.isCutBy(args[0], head)) this.stop('incomplete')
    else if (head && !this.#hold?.isFull && this.#hold?.takes(args, this.#args)) {
      this.#body.add(args[0], args[1], whole)
      const end = this.#body.end(head, this.#res.req.method)
      this.departure.stop()
      this.#hold.end(end, args, this.#sendHeld.bind(this, end))
      return this.#res
    }
    const returned = this.#through('end', args)
    this.#keep(args, whole)
    this.#ended = true
    // Koa 3 ends a response without its body if the client is gone.
    if (this.departure.gone && this.#body.bytes === 0) this.stop('incomplete')
    // If an outer layer delays the head and the end, the phase is not `body` yet. A session
    // middleware does so until it has saved its session.
    if (this.#phase === 'body' && this.#stored !== undefined)
      this.#settle(this.#body.end(this.#stored, this.#res.req.method))
    return returned
  }

  /** Sends what was held, or the reply of core in its place. */
  #sendHeld(end: OriginEnd, calls: readonly Call[], reply: Reply | undefined): void {
    if (reply !== undefined && this.#stored) this.#replace(reply, this.#stored)
    for (const [method, args] of calls) {
      if (this.#phase === 'replaced') discardWrite(args, undefined)
      else if (method === 'writeHead') this.#sendHead(this.#args)
      else this.#through(method, args)
    }
    this.#settle(end)
  }

  #flushHeaders(...args: unknown[]): unknown {
    if (!this.#original.isRunning) this.#openHead()
    return this.#isShut() ? undefined : this.#through('flushHeaders', args)
  }

  #destroy(...args: unknown[]): unknown {
    this.departure.destroyedByApp()
    const now = (): unknown => this.#original.pass('destroy', args)
    return this.#hold?.delays(args, now) ? this.#res : now()
  }

  #isShut(): boolean {
    return this.#phase === 'replaced' || this.#hold?.active === true
  }

  #through(method: 'write' | 'end' | 'flushHeaders', args: readonly unknown[]): unknown {
    const hold = this.#hold
    if (hold?.keeps && hold.takes(args, this.#args, method)) return hold.keep(method, args)
    const ownWriteHead = this.#phase === 'judged' ? this.#ownWriteHead : undefined
    try {
      return this.#original.through(method, args, ownWriteHead)
    } catch (error) {
      // No head was sent. The app may still send another response with a head of its own.
      if (this.#hold !== undefined && this.#phase === 'judged') this.#phase = 'head'
      throw error
    }
  }

  /** Adds a chunk to the capture. `whole`: its bytes, if they are known. */
  #keep(args: readonly unknown[], whole?: Uint8Array): void {
    if (this.#phase === 'settled' || this.#phase === 'replaced') return
    if (this.#body.add(args[0], args[1], whole)) return
    if (this.#hold?.keeps) this.#hold.overflow(this.#sendHeld.bind(this, notCaptured('too-large')))
    else this.stop('too-large')
  }

  #replace(reply: Reply, head: CapturedHead): void {
    this.#phase = 'replaced'
    restoreFields(this.#res, this.#outer.list)
    let end: OriginEnd = notCaptured('declined')
    try {
      this.#original.run(() => writeReply(this.#res, reply, this.#original.methods))
      // A cookie of an outer layer makes the response private, as for the app's own responses.
      // An outer `end` that waits may still set one.
      if (this.#res.headersSent && !setsCookie(this.#res)) end = { type: 'replaced', head }
    } finally {
      this.#tell(end)
    }
  }

  #settle(end: OriginEnd): void {
    if (this.#phase === 'settled' || this.#phase === 'replaced') return
    this.#phase = 'settled'
    this.#hold?.unsend?.()
    this.#tell(end)
    if (end.type === 'not-captured') this.#original.release()
  }

  #tell(end: OriginEnd): void {
    this.departure.stop()
    // An end that was held has its outcome already.
    if (this.#hold?.reported) return
    const { ended = this.#observer.ended } = this.#options
    if (end.type === 'not-captured' || hasLeft(this.#res)) process.nextTick(ended, end)
    else whenWhole(this.#res, (isWhole) => ended(isWhole ? end : notCaptured('incomplete')))
  }
}
