// Core's `IdempotentExchange` for plain node:http, and for frameworks with (req, res, next), such
// as Express.

import type { Attempt } from '@stampede/core'
import {
  type AttemptObserver,
  type HttpIdempotency,
  type IdempotentExchange,
  type RequestBody,
  responseError,
} from '@stampede/core/adapter'
import type { NodeVisit } from './node-exchange.ts'
import { linesOf } from './request/lost-lines.ts'
import type { ParsedRequest } from './request/parsed-body.ts'
import { readRequest } from './request/read-request.ts'
import { discardRequestBody, readRequestBody } from './request/request-body.ts'
import { watchAttempt } from './response/attempt-watch.ts'
import { addAtHead } from './response/write-head.ts'
import { writeReply } from './response/write-response.ts'

/** A request in a framework with callbacks, with its parsed body. */
export interface IdempotentVisit<Native> extends Omit<NodeVisit<Native>, 'dispatch'> {
  /** The body, as far as parsers have parsed it. */
  parsed?(): ParsedRequest
  /** Reads the body in place of `parsed`, if the framework reads the request itself. */
  readBody?(maxBytes: number): Promise<RequestBody>
  /** Sets the property of the request with the attempt, such as `req.idempotency`. */
  attach(attempt: Attempt): void
}

interface NodeIdempotentExchange<Native> extends IdempotentExchange<Native> {
  /** Whether the request was passed to the app, or a response was sent. */
  readonly begun: boolean
}

/**
 * Returns a function that a middleware calls for each request. An error of the user's callbacks
 * goes to `next`.
 */
export function createNodeIdempotency<Native>(
  idempotency: HttpIdempotency<Native>,
): (visit: IdempotentVisit<Native>) => void {
  return (visit) => {
    const exchange = createNodeIdempotentExchange(visit)
    const failed = (error: unknown): void => {
      // The app already runs. Calling `next` again would send a second response.
      if (exchange.begun) process.emitWarning(error instanceof Error ? error : String(error))
      else visit.next(error)
    }
    try {
      idempotency.handle(exchange, (attempt) => visit.attach(attempt))?.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}

function createNodeIdempotentExchange<Native>(
  visit: IdempotentVisit<Native>,
): NodeIdempotentExchange<Native> {
  const { req, res, next, native, address } = visit
  let begun = false
  return {
    request: readRequest(req, address),
    native,
    get begun() {
      return begun
    },
    lines: (name) => linesOf(req, name),
    isSet: (name) => res.hasHeader(name),
    readBody: (maxBytes) =>
      visit.readBody?.(maxBytes) ??
      readRequestBody(req, maxBytes, visit.parsed?.() ?? { body: undefined }),
    forward(add) {
      begun = true
      addAtHead(res, add)
      next()
    },
    run(observer) {
      begun = true
      return runAttempt(visit, observer)
    },
    send(reply) {
      begun = true
      // A stored response that cannot be sent must not make the handler run again.
      if (!writeReply(res, reply)) next(unsendable())
      discardRequestBody(req)
    },
  }
}

function runAttempt<Native>(
  { res, next }: IdempotentVisit<Native>,
  observer: AttemptObserver,
): void | Promise<void> {
  if (res.headersSent) {
    // A timeout may have responded during the lookup. The handler's response would reach no client.
    return observer.onEnd({
      type: 'failed',
      error: responseError('the response was sent before the handler ran'),
    })
  }
  const watch = watchAttempt(res, observer)
  try {
    next()
  } catch (error) {
    // Frameworks catch errors of handlers. An error of a bare listener stays uncaught, as without
    // idempotency keys.
    process.nextTick(next, error)
    watch.threw(error)
    if (!res.headersSent) return watch.report({ type: 'failed', error }).then(() => watch.ended)
  }
  return watch.ended
}

/** The error for a stored response that Node refuses to send. */
export function unsendable(): Error {
  return responseError('the kept response has a status or a header field that cannot be sent')
}
