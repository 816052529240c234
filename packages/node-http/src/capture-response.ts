// Tees what is written on one ServerResponse, by wrapping its methods. The head is judged in writeHead,
// which implicit heads also go through: there the layer we wrap has said all it has to say, and the
// layers outside us have not begun. Complete means that our own end() ran and the bytes agree with
// Content-Length; `finish` means neither (it also fires for short bodies and after aborts). The wrappers
// are never taken off, since others may have wrapped them: they become transparent.

import type { ServerResponse } from 'node:http'
import type { OriginEnd, OriginObserver, Reply } from '@stampede/core'
import { type BodyCollector, createBodyCollector } from './body.ts'
import { type Departure, watchDeparture } from './client-gone.ts'
import { type FieldMap, fieldsOf, restoreFields } from './header-fields.ts'
import { endOf, type JudgedHead, judgeHead, NO_HEAD } from './judge-head.ts'
import { discardWrite, writeReply } from './write-response.ts'

/** Call before the app runs. Resolves as soon as the outcome is known, be it before the end of the body. */
export function captureResponse(res: ServerResponse, observer: OriginObserver): Promise<OriginEnd> {
  if (res.headersSent) return Promise.resolve({ type: 'not-captured', reason: 'detached' })
  return new Promise((resolve) => new Capture(res, observer, resolve).install())
}

type Method = 'writeHead' | 'write' | 'end' | 'flushHeaders' | 'destroy'

class Capture {
  readonly #res: ServerResponse
  readonly #observer: OriginObserver
  readonly #resolve: (end: OriginEnd) => void
  readonly #original: Pick<ServerResponse, Method>
  /** Fields set by middlewares outside us; a hit gets them from there again. */
  readonly #outer: FieldMap
  readonly #body: BodyCollector
  readonly #departure: Departure
  /** `judged`: core has seen the head, and the layers outside us have not. */
  #phase: 'head' | 'judged' | 'body' | 'settled' | 'replaced' = 'head'
  #head: JudgedHead = NO_HEAD
  #probing = false
  #ended = false
  /** Above 0 while a wrapped method runs: what it calls in turn is its own business. */
  #depth = 0

  constructor(res: ServerResponse, observer: OriginObserver, resolve: (end: OriginEnd) => void) {
    const { writeHead, write, end, flushHeaders, destroy } = res
    this.#res = res
    this.#observer = observer
    this.#resolve = resolve
    this.#original = { writeHead, write, end, flushHeaders, destroy }
    this.#outer = fieldsOf(res.getHeaders())
    this.#body = createBodyCollector(observer.maxBodyBytes)
    this.#departure = watchDeparture(res, {
      closed: () => this.#closed(),
      givenUp: () => this.#decline(res.writableEnded && !this.#ended ? 'detached' : 'incomplete'),
    })
  }

  install(): void {
    Object.assign(this.#res, {
      writeHead: this.#ownWriteHead,
      write: (...args: unknown[]) => this.#write(args),
      end: (...args: unknown[]) => this.#end(args),
      flushHeaders: (...args: unknown[]) => this.#flushHeaders(args),
      destroy: (...args: unknown[]) => {
        this.#departure.destroyedByApp()
        return this.#pass('destroy', args)
      },
    })
  }

  readonly #ownWriteHead = (...args: unknown[]): unknown => {
    const phase = this.#phase
    // Without headers of their own, the layers outside us mean the head that was judged.
    if (phase === 'judged') return this.#sendHead(args.length > 1 ? args : this.#head.args)
    if (phase !== 'head' || this.#res.headersSent) return this.#pass('writeHead', args)
    return this.#judge(args) && !this.#probing ? this.#sendHead(this.#head.args) : this.#res
  }

  /** False when core answers with something else, which has been sent then. */
  #judge(args: readonly unknown[]): boolean {
    const judged = judgeHead(this.#res, args, this.#observer, this.#outer)
    if ('replacement' in judged) {
      this.#replace(judged.replacement)
      return false
    }
    this.#phase = 'judged'
    this.#head = judged
    return true
  }

  #sendHead(args: readonly unknown[]): unknown {
    this.#phase = 'body'
    let returned: unknown
    try {
      returned = this.#pass('writeHead', args)
    } catch (error) {
      // A head that Node refuses never leaves; what the app answers next is not what was judged.
      this.#decline('declined')
      throw error
    }
    // Sessions outside us set their cookie while the head is written: then it is one client's answer.
    const cookieAdded = !this.#head.cookie && this.#res.hasHeader('set-cookie')
    if (!this.#head.keep || cookieAdded) this.#decline('declined')
    else if (this.#ended) this.#finish()
    return returned
  }

  // Has an implied head judged before the layers outside us are entered, so that another answer can
  // still go through them from their start. The hooks of layers inside us run now, as in writeHead.
  // On a closed response Node would write no head at all, so there it is written here.
  #openHead(): void {
    if (this.#phase !== 'head' || this.#res.headersSent) return
    this.#probing = !this.#departure.gone
    try {
      this.#res.writeHead(this.#res.statusCode)
    } finally {
      this.#probing = false
    }
  }

  #write(args: readonly unknown[]): unknown {
    if (this.#phase === 'settled' || this.#depth > 0) return this.#pass('write', args)
    this.#departure.wrote()
    this.#openHead()
    if (this.#isReplaced()) return discardWrite(args, true)
    const more = this.#through('write', args)
    this.#keep(args)
    // While the body is kept, the handler is not slowed down by its client: others wait for the end, and one who does not
    // read must not hold them up; one who left sends no `drain` at all. Bounded by maxBodyBytes, then as ever.
    return this.#phase === 'body' ? true : more
  }

  #end(args: readonly unknown[]): unknown {
    if (this.#phase === 'settled' || this.#depth > 0) return this.#pass('end', args)
    this.#openHead()
    if (this.#isReplaced()) return discardWrite(args, this.#res)
    const returned = this.#through('end', args)
    this.#keep(args)
    this.#ended = true
    // A layer outside us may put off the real end (a session that is saved first), and the head with it.
    if (this.#phase === 'body') this.#finish()
    return returned
  }

  #flushHeaders(args: readonly unknown[]): unknown {
    if (this.#depth === 0) this.#openHead()
    return this.#isReplaced() ? undefined : this.#through('flushHeaders', args)
  }

  #isReplaced = (): boolean => this.#phase === 'replaced'

  #pass(method: Method, args: readonly unknown[]): unknown {
    return Reflect.apply(this.#original[method], this.#res, args)
  }

  /** Calls the layers outside us; those inside us have had their turn with the head. */
  #through(method: Method, args: readonly unknown[]): unknown {
    const { writeHead } = this.#res
    if (this.#phase === 'judged') Object.assign(this.#res, { writeHead: this.#ownWriteHead })
    this.#depth += 1
    try {
      return this.#pass(method, args)
    } finally {
      this.#depth -= 1
      if (this.#res.writeHead === this.#ownWriteHead) this.#res.writeHead = writeHead
    }
  }

  /** If the app ended the response before it was closed, only its head may be missing. */
  #closed(): void {
    if (!this.#ended) return
    this.#openHead()
    if (this.#phase === 'judged' && !this.#res.headersSent) this.#sendHead(this.#head.args)
    this.#decline('detached')
  }

  #keep([chunk, encoding]: readonly unknown[]): void {
    if (this.#phase === 'settled' || this.#phase === 'replaced') return
    if (!this.#body.add(chunk, encoding)) this.#decline('too-large')
  }

  #finish(): void {
    this.#settle(endOf(this.#head.stored, this.#body, this.#res.req.method))
  }

  #decline(reason: 'declined' | 'too-large' | 'incomplete' | 'detached'): void {
    this.#settle({ type: 'not-captured', reason })
  }

  #replace(reply: Reply): void {
    this.#decline('declined')
    this.#phase = 'replaced'
    restoreFields(this.#res, this.#outer)
    writeReply(this.#res, reply, this.#original)
  }

  #settle(end: OriginEnd): void {
    if (this.#phase === 'settled' || this.#phase === 'replaced') return
    this.#phase = 'settled'
    this.#departure.stop()
    this.#body.drop()
    this.#resolve(end)
  }
}
