// Core's `IdempotentExchange` for plain node:http, and for frameworks with (req, res, next), such
// as Express.

import type { ServerResponse } from 'node:http'
import type { Attempt } from '@stampede/core'
import type {
  createHttpIdempotency,
  Exchange,
  HeaderList,
  IdempotentExchange,
  Reply,
} from '@stampede/core/adapter'
import type { NodeVisit } from './node-exchange.ts'
import {
  type BodyVisit,
  discardRequestBody,
  type RequestBody,
  readRequestBody,
} from './request/body.ts'
import { linesOf, type RequestAddress, readRequest } from './request/read-request.ts'
import { addAtHead } from './response/head.ts'
import { type AttemptObserver, AttemptWatch, responseError } from './response/hold-end.ts'
import { writeReply } from './response/write-response.ts'

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
