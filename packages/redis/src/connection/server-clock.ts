// This process's estimate of the server's clock: two bounds from each reply that carries Redis
// TIME. With it, a command can carry its deadline, and the age of a message is known.

import type { Clock } from '@stampede/core/store'
import type { Patience } from './patience.ts'

export class ServerClock {
  readonly #clock: Clock
  readonly #patience: Patience | undefined
  /** Server minus monotonic clock: at least, and at most, this. */
  #atLeast: number | undefined
  #atMost = 0

  /** `patience` is told how long these replies took. */
  constructor(clock: Clock, patience?: Patience) {
    this.#clock = clock
    this.#patience = patience
  }

  now(): number {
    return this.#clock.now()
  }

  /** A reply said that the server's clock was `serverNow` between `sentAt` and now. */
  observe(serverNow: number, sentAt: number): void {
    // NaN would stay in the bounds for ever.
    if (!Number.isFinite(serverNow)) return
    const now = this.#clock.now()
    this.#patience?.replied(now - sentAt)
    const atLeast = serverNow - now
    const atMost = serverNow - sentAt
    const jumped = this.#atLeast !== undefined && (atMost < this.#atLeast || atLeast > this.#atMost)
    // Bounds only get better, until the two clocks have drifted apart or one was set.
    if (this.#atLeast === undefined || jumped) {
      this.#atLeast = atLeast
      this.#atMost = atMost
    } else {
      this.#atLeast = Math.max(this.#atLeast, atLeast)
      this.#atMost = Math.min(this.#atMost, atMost)
    }
  }

  /** Latest moment of the server at which a command sent now is still wanted; 0: not known yet. */
  notAfter(budgetMs: number): number {
    if (this.#atLeast === undefined) return 0
    return Math.ceil(this.#clock.now() + this.#atMost + budgetMs)
  }

  /** How long ago this moment of the server was, at the most; undefined: not known yet. */
  agoAtMost(serverMs: number): number | undefined {
    if (this.#atLeast === undefined) return undefined
    return this.#clock.now() + this.#atMost - serverMs
  }

  /** How long until this moment of the server, at the least. */
  atLeastUntil(serverMs: number): number {
    return serverMs - (this.#clock.now() + this.#atMost)
  }
}
