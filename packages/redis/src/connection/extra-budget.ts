// One more time budget for the first late reply of a server. A Redis with many queued commands
// looks frozen at first: it sends all replies of one turn of its event loop together.

import type { Clock } from '@stampede/core/store'

export class ExtraBudget {
  readonly #clock: Clock
  readonly #budgetMs: number
  /** End of the extra time. Undefined if no reply has been late since the last quick one. */
  #until: number | undefined

  constructor(clock: Clock, budgetMs: number) {
    this.#clock = clock
    this.#budgetMs = budgetMs
  }

  /** Extra time for a command sent now, if its own budget of `commandMs` is spent by then. */
  availableMs(commandMs: number): number {
    if (this.#until === undefined) return this.#budgetMs
    return Math.max(0, this.#until - this.#clock.now() - commandMs)
  }

  /**
   * Starts the extra time for a late reply, unless it runs already. Returns the rest of it. All
   * pending commands share one end.
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
