// idempotentFront: idempotency keys in front of a request listener.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency } from '@stampede/core/adapter'
import { optionError } from '@stampede/core/store'
import { type Listener, PASS_A_LISTENER, passTo } from './front.ts'
import { createNodeIdempotency } from './node-idempotency.ts'
import { addressOf } from './request/read-request.ts'

/** A request with the attempt, which `idempotentFront` sets if the request has a key. */
type WithAttempt<Req> = Req & { idempotency?: Attempt }

/**
 * Returns a listener that runs `listener` once for each idempotency key. A repeated request gets
 * the stored response. `listener` gets the attempt as `req.idempotency`. The returned listener
 * never throws or rejects: an error of `listener` becomes a 500 and a `StampedeFrontWarning` of the
 * process. If the client has left, an empty response that may have a body is not stored, because
 * some frameworks then send no body. Throws `ERR_STAMPEDE_OPTION` if an option is invalid.
 *
 * @example
 * http.createServer(idempotentFront(app, { stampede, scope: (req) => userOf(req) }))
 */
export function idempotentFront(
  listener: Listener<WithAttempt<IncomingMessage>>,
  options: IdempotencyOptions<IncomingMessage>,
): (req: IncomingMessage, res: ServerResponse) => void
/**
 * Returns such a listener for the request and response objects of node:http2 (its compatibility
 * API).
 */
export function idempotentFront(
  listener: Listener<WithAttempt<Http2ServerRequest>, Http2ServerResponse>,
  options: IdempotencyOptions<Http2ServerRequest>,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void
export function idempotentFront(
  listener: Listener<never, never>,
  options: IdempotencyOptions<never>,
): (req: never, res: never) => void {
  if (typeof listener !== 'function')
    throw optionError('idempotentFront', listener, PASS_A_LISTENER)
  const visit = createNodeIdempotency<WithAttempt<IncomingMessage>>(createHttpIdempotency(options))
  return function idempotentFront(this: unknown, req: WithAttempt<IncomingMessage>, res): void {
    const address = addressOf(req)
    // The compatibility objects of HTTP/2 have all the members used here.
    const next = passTo(listener as Listener, this, req, res, address.target)
    const attach = (attempt: Attempt): void => {
      req.idempotency = attempt
    }
    visit({ req, res, next, native: req, address, attach, isFront: true })
  }
}
