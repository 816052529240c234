// One more budget for the first late reply of a server. A Redis with a long queue replies late, and
// until then looks like a frozen one: it sends the replies of one turn of its event loop together.

import type { Clock } from '@stampede/core/store'

export class Patience {
  readonly #clock: Clock
  readonly #budgetMs: number
  /** End of the extra time. Undefined: no reply was late since the last quick one. */
  #until: number | undefined

  constructor(clock: Clock, budgetMs: number) {
    this.#clock = clock
    this.#budgetMs = budgetMs
  }

  /** How long after `inMs` the reply to a command that is sent now may still be waited for. */
  mostMs(inMs: number): number {
    if (this.#until === undefined) return this.#budgetMs
    return Math.max(0, this.#until - this.#clock.now() - inMs)
  }

  /** How much longer to wait for a reply that is late now. All commands under way share one end. */
  moreMs(): number {
    const now = this.#clock.now()
    this.#until ??= now + this.#budgetMs
    return Math.max(0, this.#until - now)
  }

  /** Only a quick reply gives the extra time again: a link that is always slow gets it once. */
  replied(tookMs: number): void {
    if (2 * tookMs < this.#budgetMs) this.#until = undefined
  }
}
