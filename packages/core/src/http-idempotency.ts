// createHttpIdempotency: what the adapters are built on. Options in, one `handle` out.

import type { Attempt } from './idempotency/attempt.ts'
import { handleIdempotent } from './idempotency/handle-idempotent.ts'
import { type IdempotencyRules, readIdempotencyOptions } from './idempotency/idempotency-options.ts'
import type { IdempotentExchange } from './ports/idempotent-exchange.ts'
import { createStampede, idempotencyOf, type Stampede } from './stampede.ts'

/** Options of `idempotency`. */
export interface IdempotencyOptions<Native = unknown> extends IdempotencyRules<Native> {
  /** The Stampede whose store keeps the records. Default: one of its own, in memory. */
  stampede?: Stampede
}

export interface HttpIdempotency<Native = unknown> {
  /**
   * Answers the request, or hands it to the app after `attach` was given the attempt. A promise when that takes time; it rejects,
   * and the call throws, only with what the user's own callbacks threw, or when the body cannot be seen.
   */
  handle(
    exchange: IdempotentExchange<Native>,
    attach: (attempt: Attempt) => void,
  ): void | Promise<void>
}

/** Checks the options, once. Throws `ERR_STAMPEDE_OPTION`. */
export function createHttpIdempotency<Native = unknown>(
  options: IdempotencyOptions<Native>,
): HttpIdempotency<Native> {
  const rules = readIdempotencyOptions<Native>(options)
  const stampede = options.stampede === undefined ? createStampede() : options.stampede
  const rt = idempotencyOf(stampede)
  return { handle: (exchange, attach) => handleIdempotent(rt, rules, exchange, attach) }
}
