// Who in this process waits for an attempt somewhere else to end. Wake-ups are hints: whoever is woken asks again.

import type { Clock } from '../ports/clock.ts'

export interface Waiting {
  /** Until a wake-up since `join`, or for `forMs`. */
  sleep(forMs: number): Promise<void>
  leave(): void
}

export class Waiters {
  readonly #clock: Clock
  readonly #byKey = new Map<string, Set<() => void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Before the store is asked, so that no wake-up falls in between. Undefined when `max` wait already. */
  join(key: string, max: number): Waiting | undefined {
    const others = this.#byKey.get(key) ?? new Set()
    if (others.size >= max) return undefined
    let woken = false
    let stir: () => void = () => {}
    const wake = () => {
      woken = true
      stir()
    }
    this.#byKey.set(key, others.add(wake))
    return {
      sleep: async (forMs) => {
        if (!woken) await this.#either(forMs, (resolve) => (stir = resolve))
        woken = false
      },
      leave: () => {
        others.delete(wake)
        if (others.size === 0) this.#byKey.delete(key)
      },
    }
  }

  wake(key: string): void {
    for (const wake of [...(this.#byKey.get(key) ?? [])]) wake()
  }

  wakeAll(): void {
    for (const key of [...this.#byKey.keys()]) this.wake(key)
  }

  #either(forMs: number, listen: (resolve: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(forMs, resolve)
      listen(() => {
        timer.cancel()
        resolve()
      })
    })
  }
}
