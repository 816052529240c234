// The concurrency slot of a run without a lease. If the handler goes on after the fill has its
// result, the slot stays in use until the handler has ended.

import type { FillResult, Lead } from '../engine/types.ts'
import type { FreeSlot } from '../lease/slots.ts'
import { STORED_BY_INNER } from './inner-cache.ts'

export class RunSlot {
  readonly #lead: Lead
  #hasEnded = false
  #freeSlot: FreeSlot | undefined

  constructor(lead: Lead) {
    this.#lead = lead
  }

  /** Call this when the response has ended, or when its client has left. */
  readonly onEnd = (): void => {
    this.#hasEnded = true
    this.#freeSlot?.()
  }

  /**
   * Called before the result frees the slot of the fill. If the handler goes on after the result,
   * another slot is taken for it.
   */
  takeAfter(result: FillResult): void {
    const { type } = result
    // The inner cache needs a slot for its own run. If this run kept one, the inner cache could
    // wait for that slot forever.
    if (type === 'pass' && result.reason === STORED_BY_INNER.reason) this.#hasEnded = true
    const needsNoSlot = this.#hasEnded || type === 'store' || type === 'not-modified'
    if (!needsNoSlot && !this.#lead.hasTimedOut) this.#freeSlot ??= this.#lead.keepSlot?.()
  }
}
