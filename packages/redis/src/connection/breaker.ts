// A circuit breaker with one half-open probe. While Redis is away, requests do not wait for the
// budget one after another.

import type { Clock } from '@stampede/core/store'

/** Failures in a row that open it. */
const THRESHOLD = 3
/** How long it stays open before one operation may try again. */
const OPEN_MS = 500

export class Breaker {
  readonly #clock: Clock
  #failures = 0
  #openUntil = 0
  #probing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** False: do not try now. True: try, and tell how it went. */
  mayTry(): boolean {
    if (this.#failures < THRESHOLD) return true
    if (this.#probing || this.#clock.now() < this.#openUntil) return false
    this.#probing = true
    return true
  }

  succeeded(): void {
    this.#failures = 0
    this.#probing = false
  }

  failed(): void {
    this.#failures += 1
    this.#probing = false
    this.#openUntil = this.#clock.now() + OPEN_MS
  }
}
