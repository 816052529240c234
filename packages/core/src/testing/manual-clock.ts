// A clock that only moves when a test moves it. Timers run in the order of their time, and promises
// settle between them, so that a test reads as a schedule.

import type { Clock, Timer } from '../ports/clock.ts'

interface Pending {
  readonly at: number
  readonly order: number
  readonly callback: () => void
}

export class ManualClock implements Clock {
  /** The time by which timers run. */
  #now = 1_000
  #stalledMs = 0
  #order = 0
  readonly #pending = new Set<Pending>()
  /** The random numbers. With 0, lifetimes are exact. */
  random: () => number

  constructor(random: () => number = () => 0) {
    this.random = random
  }

  now(): number {
    return this.#now + this.#stalledMs
  }

  wallNow(): number {
    return 1_700_000_000_000 + this.now()
  }

  get timers(): number {
    return this.#pending.size
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const pending: Pending = {
      at: this.#now + Math.max(0, delayMs),
      order: this.#order++,
      callback,
    }
    this.#pending.add(pending)
    return { cancel: () => this.#pending.delete(pending) }
  }

  /** Advances by `ms`, and runs the timers that fall due. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    await settled()
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#now = Math.max(this.#now, next.at)
      this.#pending.delete(next)
      next.callback()
      await settled()
    }
    this.#now = end
    await settled()
  }

  /** Time passes and no timer runs: the event loop is blocked, or the machine is suspended. */
  stall(ms: number): void {
    this.#stalledMs += ms
  }

  #next(end: number): Pending | undefined {
    let first: Pending | undefined
    for (const timer of this.#pending) {
      if (timer.at > end) continue
      const earlier = first === undefined || timer.at < first.at
      if (earlier || (timer.at === first?.at && timer.order < first.order)) first = timer
    }
    return first
  }
}

/** Resolves when every promise that needs no time has settled. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}
