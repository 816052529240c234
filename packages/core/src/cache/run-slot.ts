// The concurrency slot of a run without a lease, for the time in which its handler goes on after
// the result of the fill.

import type { FreeSlot } from '../flight/origin-slots.ts'
import type { FillResult, Lead } from '../flight/resolution.ts'
import { STORED_BY_INNER } from './inner-cache.ts'

export class RunSlot {
  readonly #lead: Lead
  #isOver = false
  #leave: FreeSlot | undefined

  constructor(lead: Lead) {
    this.#lead = lead
  }

  /** The response has ended, or its client has left. */
  readonly onEnd = (): void => {
    this.#isOver = true
    this.#leave?.()
  }

  /**
   * Wraps `settle`. A slot for the rest of the run is taken before `settle` frees that of the fill.
   */
  before(settle: (result: FillResult) => void): (result: FillResult) => void {
    return (result) => {
      this.#keep(result)
      settle(result)
    }
  }

  #keep(result: FillResult): void {
    const { type } = result
    // The inner cache takes a slot for its own run. It could wait for this one forever.
    if (type === 'pass' && result.reason === STORED_BY_INNER.reason) this.#isOver = true
    const hasEnded = this.#isOver || type === 'store' || type === 'not-modified'
    if (!hasEnded && !this.#lead.hasTimedOut) this.#leave ??= this.#lead.keepSlot?.()
  }
}
