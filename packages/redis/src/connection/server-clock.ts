// This process's estimate of the server's clock: a lower and an upper bound. Each reply with Redis
// TIME narrows them. A command can then carry its deadline, and a message has a known age.

import type { Clock } from '@stampede/core/store'

export class ServerClock {
  readonly #clock: Clock
  /** Bounds of the server's clock minus the monotonic clock. Undefined: no reply yet. */
  #minOffset: number | undefined
  #maxOffset = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now()
  }

  /** A reply shows that the server's clock was `serverNow` between `sentAt` and now. */
  observe(serverNow: number, sentAt: number): void {
    // NaN would stay in the bounds for ever.
    if (!Number.isFinite(serverNow)) return
    const now = this.#clock.now()
    const minOffset = serverNow - now
    const maxOffset = serverNow - sentAt
    const isApart =
      this.#minOffset !== undefined && (maxOffset < this.#minOffset || minOffset > this.#maxOffset)
    // A reply can only narrow the bounds. If the new bounds do not overlap the old ones, the clocks
    // have drifted apart or a clock was set. Then the old bounds are dropped.
    if (this.#minOffset === undefined || isApart) {
      this.#minOffset = minOffset
      this.#maxOffset = maxOffset
    } else {
      this.#minOffset = Math.max(this.#minOffset, minOffset)
      this.#maxOffset = Math.min(this.#maxOffset, maxOffset)
    }
  }

  /** Deadline of a command sent now, in ms of the server's clock. 0 before the first reply. */
  notAfter(budgetMs: number): number {
    if (this.#minOffset === undefined) return 0
    return Math.ceil(this.#clock.now() + this.#maxOffset + budgetMs)
  }

  /** The longest time that may have passed since `serverMs`. Undefined before the first reply. */
  agoAtMost(serverMs: number): number | undefined {
    if (this.#minOffset === undefined) return undefined
    return this.#clock.now() + this.#maxOffset - serverMs
  }

  /** The shortest time that may be left until `serverMs`. */
  atLeastUntil(serverMs: number): number {
    return serverMs - (this.#clock.now() + this.#maxOffset)
  }
}
