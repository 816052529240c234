// createHttpIdempotency: the idempotency keys that the adapters wrap.

import type { Attempt } from './idempotency/attempt.ts'
import { handleIdempotent } from './idempotency/handle-idempotent.ts'
import {
  checkTransactions,
  type IdempotencyRules,
  readIdempotencyOptions,
} from './idempotency/options.ts'
import { checkCalled } from './options.ts'
import type { IdempotentExchange } from './ports/idempotent-exchange.ts'
import { createStampede, idempotencyOf, type Stampede } from './stampede.ts'

/** Options of `idempotency`. */
export interface IdempotencyOptions<Native = unknown> extends IdempotencyRules<Native> {
  /** The Stampede whose store has the records. Default: a new one with a memory store. */
  stampede?: Stampede | undefined
}

/** Idempotency keys, as an adapter uses them. */
export interface HttpIdempotency<Native = unknown> {
  /**
   * Responds to the request, or calls `attach` with the attempt and forwards the request to the
   * handler. Returns a promise unless it can finish synchronously. Throws or rejects only with an
   * error of a callback option, or with `ERR_STAMPEDE_BODY_UNSEEN`.
   */
  handle(
    exchange: IdempotentExchange<Native>,
    attach: (attempt: Attempt) => void,
  ): void | Promise<void>
}

/**
 * Creates idempotency keys for requests. Throws `ERR_STAMPEDE_OPTION` if an option is not valid.
 */
export function createHttpIdempotency<Native = unknown>(
  options: IdempotencyOptions<Native>,
): HttpIdempotency<Native> {
  checkCalled('idempotency', options, 'idempotency({ scope: (req) => req.user.id })')
  const rules = readIdempotencyOptions(options)
  const stampede = options.stampede === undefined ? createStampede() : options.stampede
  const rt = idempotencyOf(stampede)
  checkTransactions('idempotency', rules, rt.store)
  // Bound, because a closure would be one call more for each request.
  return { handle: handleIdempotent.bind(undefined, rt, rules) }
}
