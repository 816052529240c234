// A circuit breaker. While Redis is unavailable, commands fail at once instead of waiting for their
// time budget. From time to time, one command may try again (a probe).

import type { Clock } from '@stampede/core/store'

/** Consecutive failures that open the breaker. */
const THRESHOLD = 3
/** Time for which the breaker stays open before one operation may try again. */
const OPEN_MS = 500

export class Breaker {
  readonly #clock: Clock
  #failures = 0
  #openUntil = 0
  #probing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isOpen(): boolean {
    return this.#failures >= THRESHOLD
  }

  /** Whether the latest operations failed, but too few of them to open the breaker. */
  get isDoubtful(): boolean {
    return this.#failures > 0 && this.#failures < THRESHOLD
  }

  /**
   * Whether the caller may send a command. After `true`, it must report the result with `succeeded`
   * or `failed`.
   */
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
