// The extra budget: one more time budget for the first late reply of a server. Redis sends all
// replies of one turn of its event loop together. So a server with many queued commands looks
// frozen until the end of that turn.

import type { Clock } from '@stampede/core/store'

export class ExtraBudget {
  readonly #clock: Clock
  readonly #budgetMs: number
  /** End of the extra time. Undefined if no reply was late since the last quick reply. */
  #until: number | undefined

  constructor(clock: Clock, budgetMs: number) {
    this.#clock = clock
    this.#budgetMs = budgetMs
  }

  /** Extra time that a command sent now would have after its own budget of `commandMs`. */
  availableMs(commandMs: number): number {
    if (this.#until === undefined) return this.#budgetMs
    return Math.max(0, this.#until - this.#clock.now() - commandMs)
  }

  /**
   * Starts the extra time, unless it has started already, and returns how much of it is left. All
   * pending commands share its end.
   */
  startMs(): number {
    const now = this.#clock.now()
    this.#until ??= now + this.#budgetMs
    return Math.max(0, this.#until - now)
  }

  /** Only a quick reply restores the extra time. A link that is always slow gets it once. */
  onReply(tookMs: number): void {
    if (2 * tookMs < this.#budgetMs) this.#until = undefined
  }
}
