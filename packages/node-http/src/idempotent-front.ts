// idempotentFront: idempotency keys in front of a request listener, such as that of node:http.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Attempt, IdempotencyOptions } from '@stampede/core'
import { createHttpIdempotency, optionError } from '@stampede/core/adapter'
import { enter, fail, type Listener, PASS_A_LISTENER } from './front.ts'
import { createNodeIdempotency } from './node-idempotency.ts'
import { addressOf } from './request/read-request.ts'

/**
 * Returns a listener that runs `listener` once for each idempotency key. A repeated request gets
 * the stored response. `req.idempotency` is the attempt, if the request has a key. The returned
 * listener never throws or rejects: an error of `listener` becomes a 500, which is not stored, and
 * a `StampedeFrontWarning` of the process. Throws `ERR_STAMPEDE_OPTION` if an option is invalid.
 *
 * @example
 * const guarded = idempotentFront(listener, { stampede, scope: (req) => userOf(req).id })
 * http.createServer(stampedeFront(guarded, { stampede, ttlMs: 10_000 }))
 */
export function idempotentFront(
  listener: Listener<IncomingMessage & { idempotency?: Attempt }>,
  options: IdempotencyOptions<IncomingMessage>,
): (req: IncomingMessage, res: ServerResponse) => void {
  if (typeof listener !== 'function')
    throw optionError('idempotentFront', listener, PASS_A_LISTENER)
  const visit = createNodeIdempotency(createHttpIdempotency(options))
  return function idempotentFront(this: unknown, req, res): void {
    const address = addressOf(req)
    const failed = (error: unknown): void => fail(error, req, res, address.target)
    const next = (error?: unknown): void => {
      if (error === undefined) enter(listener, this, req, res, failed)
      else failed(error)
    }
    const attach = (idempotency: Attempt): void => void Object.assign(req, { idempotency })
    visit({ req, res, next, native: req, address, attach })
  }
}
