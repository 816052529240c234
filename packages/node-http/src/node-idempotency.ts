// Core's `IdempotentExchange` for plain node:http, and for frameworks with (req, res, next), such
// as Express.

import type { ServerResponse } from 'node:http'
import { type Attempt, StampedeError } from '@stampede/core'
import type {
  CapturedHead,
  createHttpIdempotency,
  Exchange,
  HeaderList,
  IdempotentExchange,
  OriginEnd,
  OriginObserver,
  Reply,
} from '@stampede/core/adapter'
import type { NodeVisit } from './node-exchange.ts'
import {
  type BodyVisit,
  discardRequestBody,
  type RequestBody,
  readRequestBody,
} from './request/body.ts'
import { hasLeft } from './request/client-gone.ts'
import { linesOf, type RequestAddress, readRequest } from './request/read-request.ts'
import { Capture } from './response/capture.ts'
import type { CaptureObserver } from './response/capture-options.ts'
import { headOf, OuterFields } from './response/fields.ts'
import { addAtHead } from './response/head.ts'
import { writeReply } from './response/write-response.ts'

/** The error for a response that cannot be sent, or that ended before it was complete. */
const responseError = (why: string) => new StampedeError('ERR_STAMPEDE_RESPONSE', why)

export type AttemptObserver = Parameters<IdempotentExchange['run']>[0]
type AttemptEnd = Parameters<AttemptObserver['onEnd']>[0]
type RequestView = Exchange['request']

/** A request in a framework, with its parsed body. */
export interface AttemptVisit<Native> extends BodyVisit<Native> {
  readonly res: ServerResponse
  readonly address: RequestAddress
}

/** A request in a framework with callbacks, such as Express. */
export interface IdempotentVisit<Native>
  extends AttemptVisit<Native>,
    Pick<NodeVisit<Native>, 'next'> {
  /** Sets the property of the request with the attempt, such as `req.idempotency`. No method. */
  readonly attach: (attempt: Attempt) => void
  /** A framework may stand behind: see `AttemptWatch`. */
  readonly isFront?: boolean
}

/**
 * Returns a function that a middleware calls for each request. An error of the user's callbacks
 * goes to `next`.
 */
export function createNodeIdempotency<Native>(
  idempotency: ReturnType<typeof createHttpIdempotency<Native>>,
): (visit: IdempotentVisit<Native>) => void {
  return (visit) => {
    const exchange = new NodeIdempotentExchange(visit)
    try {
      const handled = idempotency.handle(exchange, visit.attach)
      handled?.catch((error) => exchange.failed(error))
    } catch (error) {
      exchange.failed(error)
    }
  }
}

/** The part of an exchange with an idempotency key that all frameworks share. */
export abstract class AttemptExchange<
  Native,
  Visit extends AttemptVisit<Native> = AttemptVisit<Native>,
> implements IdempotentExchange<Native>
{
  readonly request: RequestView
  readonly native: Native
  protected readonly visit: Visit
  /** Whether the request was passed to the app, or a response was sent. */
  protected begun = false

  constructor(visit: Visit) {
    this.request = readRequest(visit.req, visit.address)
    this.native = visit.native
    this.visit = visit
  }

  abstract run(observer: AttemptObserver): void
  /** Passes the request to the next handler. */
  protected abstract pass(): void
  /** Sends the reply, and returns false if it cannot be sent. */
  protected abstract write(reply: Reply): boolean
  /** Fails the request. */
  protected abstract fail(error: Error): void

  /**
   * Whether a response was sent during the lookup, such as that of a timeout. The handler must not
   * run then, because its response would reach no client. Reports that to core.
   */
  protected wasSent(observer: AttemptObserver): boolean {
    const { headersSent, writableEnded } = this.visit.res
    const isSent = headersSent || writableEnded
    const why = 'the response was sent before the handler ran'
    if (isSent) void observer.onEnd({ type: 'failed', error: responseError(why) })
    return isSent
  }

  lines(name: string): readonly string[] {
    return linesOf(this.visit.req, name)
  }

  isSet(name: string): boolean {
    return this.visit.res.hasHeader(name)
  }

  readBody(maxBytes: number): RequestBody | Promise<RequestBody> {
    return readRequestBody(this.visit, maxBytes)
  }

  forward(add: HeaderList): void {
    this.begun = true
    addAtHead(this.visit.res, add)
    this.pass()
  }

  send(reply: Reply): void {
    this.begun = true
    // A stored response that cannot be sent must not make the handler run again.
    if (!this.write(reply)) this.fail(responseError(UNSENDABLE))
    discardRequestBody(this.visit.req)
  }
}

const UNSENDABLE = 'the kept response has a status or a header field that cannot be sent'

class NodeIdempotentExchange<Native> extends AttemptExchange<Native, IdempotentVisit<Native>> {
  run(observer: AttemptObserver): void {
    this.begun = true
    if (this.wasSent(observer)) return
    const { res, next, isFront } = this.visit
    const watch = new AttemptWatch(res, observer, isFront)
    try {
      next()
    } catch (error) {
      // Frameworks catch errors of handlers. An error of a bare listener stays uncaught, as without
      // idempotency keys.
      process.nextTick(next, error)
      watch.threw(error)
      if (!res.headersSent) void watch.report({ type: 'failed', error })
    }
  }

  protected pass(): void {
    this.visit.next()
  }

  protected write(reply: Reply): boolean {
    return writeReply(this.visit.res, reply)
  }

  protected fail(error: Error): void {
    this.visit.next(error)
  }

  /** Passes an error of the user's callbacks to the app. */
  failed(error: unknown): void {
    // If the app already runs, calling `next` again would send a second response.
    if (this.begun) process.emitWarning(error instanceof Error ? error : String(error))
    else this.visit.next(error)
  }
}

/**
 * Whether the body may be missing because the client has left. Koa 3 then calls `end()` without the
 * body. Koa 2 never ends the response.
 */
function lacksBody(res: ServerResponse, { head, body }: OriginEnd & { type: 'complete' }): boolean {
  if (body.byteLength > 0 || !hasLeft(res) || [204, 205, 304].includes(head.status)) return false
  return head.headers.every(([name, value]) => name !== 'content-length' || value !== '0')
}

/**
 * Watches one run of a handler under an idempotency key, and reports its end to core once. Create
 * it before the app runs. An end that cannot be delayed is reported at once.
 */
export class AttemptWatch implements CaptureObserver {
  readonly holdsAll: boolean
  readonly maxBodyBytes: number
  readonly graceMs: number
  readonly #res: ServerResponse
  readonly #observer: AttemptObserver
  readonly #isFront: boolean
  /** Fields that were set before the app runs. */
  readonly outer: OuterFields
  readonly #capture: Capture
  #seen: CapturedHead | undefined
  #thrown: { readonly error: unknown } | undefined
  #reported: { readonly until: void | Promise<void> | Promise<Reply | undefined> } | undefined
  #stopped = false

  /** `isFront`: an empty response may be that of a framework that sends no body to nobody. */
  constructor(res: ServerResponse, observer: AttemptObserver, isFront = false) {
    this.holdsAll = observer.holdsAll
    this.maxBodyBytes = observer.maxBodyBytes
    this.graceMs = observer.graceMs
    this.#res = res
    this.#observer = observer
    this.#isFront = isFront
    this.outer = new OuterFields(res)
    this.#capture = new Capture(res, this, { outer: this.outer })
  }

  onHead(head: CapturedHead): ReturnType<OriginObserver['onHead']> {
    this.#seen = head
    return { action: 'send', capture: true, add: [], remove: [] }
  }

  beforeEnd(end: OriginEnd): void | Promise<void> | Promise<Reply | undefined> {
    if (end.type !== 'complete' || (this.#isFront && lacksBody(this.#res, end)))
      return this.report(this.#endWithoutBody(end))
    return this.report(end)
  }

  /** An end that was not delayed is reported now. */
  readonly ended = (end: OriginEnd): void => {
    if (!this.#stopped && this.#reported === undefined) void this.beforeEnd(end)
  }

  /** Reports the end to core, unless an end was reported before. */
  report(end: AttemptEnd): void | Promise<void> | Promise<Reply | undefined> {
    this.#reported ??= { until: this.#observer.onEnd(end) }
    return this.#reported.until
  }

  /** Call this when the app has thrown. Its framework may still send an error response. */
  threw(error: unknown): void {
    this.#thrown = { error }
    // Frameworks leave a response open whose head looks sent.
    const { headersSent, writableEnded } = this.#res
    if (this.holdsAll && headersSent && !writableEnded) this.#res.destroy()
  }

  /** Reports the end of a response with this head. */
  reportAs(end: OriginEnd, head: CapturedHead): ReturnType<AttemptWatch['report']> {
    return this.report(end.type === 'complete' ? end : this.#cutOff(end, head))
  }

  /** The end of a response whose body was not captured. If all of it was held, none was sent. */
  #cutOff(end: OriginEnd, head: CapturedHead): AttemptEnd {
    const isTooLarge = end.type === 'not-captured' && end.reason === 'too-large'
    if (!this.holdsAll || isTooLarge) return { type: 'not-retained', head }
    return { type: 'failed', error: responseError('the response ended before it was complete') }
  }

  /** Stops watching, because other code reports the end. */
  stop(): void {
    this.#stopped = true
    this.#capture.stop()
  }

  #endWithoutBody(end: OriginEnd): AttemptEnd {
    const { status, headers } = this.#seen ?? headOf(this.#res)
    // The response may have been sent without a call of our wrapped methods.
    if (this.#seen !== undefined || this.#res.headersSent)
      return this.#cutOff(end, this.outer.storedHead(status, headers))
    return this.#thrown ? { type: 'failed', ...this.#thrown } : { type: 'unanswered' }
  }
}
