// Many deadlines on one timer. Most deadlines are cancelled before they are due, so a timer for
// each of them would be wasted.

import { type Clock, isOverdue, type Timer } from '../ports/clock.ts'

export interface Deadline {
  readonly at: number
  readonly due: () => void
}

export class Deadlines {
  readonly #clock: Clock
  readonly #open = new Set<Deadline>()
  #timer: Timer | undefined
  #timerAt = Infinity

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls `due` once when the clock reaches `at`, never earlier. */
  add(at: number, due: () => void): Deadline {
    const deadline = { at, due }
    this.#open.add(deadline)
    this.#schedule(at)
    return deadline
  }

  /** Cancels a deadline. The timer keeps running for the next deadline. */
  end(deadline: Deadline | undefined): void {
    if (deadline !== undefined) this.#open.delete(deadline)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timerAt = Infinity
    this.#open.clear()
  }

  #schedule(at: number): void {
    const now = this.#clock.now()
    const isLate = isOverdue(this.#timerAt, now)
    if (at >= this.#timerAt && !isLate) return
    this.#timer?.cancel()
    this.#timerAt = isLate ? now : at
    this.#timer = this.#clock.setTimer(this.#timerAt - now, () => {
      this.#timerAt = Infinity
      this.#runDue()
    })
  }

  #runDue(): void {
    const now = this.#clock.now()
    for (const deadline of [...this.#open]) {
      // A deadline that is due may end another one during this loop.
      if (deadline.at > now || !this.#open.delete(deadline)) continue
      deadline.due()
    }
    let next = Infinity
    for (const { at } of this.#open) next = Math.min(next, at)
    this.#schedule(next)
  }
}
