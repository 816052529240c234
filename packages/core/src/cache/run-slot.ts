// The concurrency slot of a run without a lease, while the handler goes on after its result.

import type { Leave } from '../flight/origin-slots.ts'
import type { FillResult, Lead } from '../flight/resolution.ts'
import { LEFT_TO_INNER } from './inner-cache.ts'

export class RunSlot {
  readonly #lead: Lead
  #isOver = false
  #leave: Leave | undefined

  constructor(lead: Lead) {
    this.#lead = lead
  }

  /** The response has ended, or its client has left. */
  readonly onEnd = (): void => {
    this.#isOver = true
    this.#leave?.()
  }

  /** Keeps the slot before `settle` ends the fill, which gives its own slot back. */
  before(settle: (result: FillResult) => void): (result: FillResult) => void {
    return (result) => {
      this.#keep(result)
      settle(result)
    }
  }

  #keep(result: FillResult): void {
    const { type } = result
    // An inner cache counts its run itself, and would wait for this slot.
    if (type === 'pass' && result.reason === LEFT_TO_INNER.reason) this.#isOver = true
    const hasEnded = this.#isOver || type === 'store' || type === 'not-modified'
    if (!hasEnded && !this.#lead.isLate) this.#leave ??= this.#lead.keepSlot?.()
  }
}
