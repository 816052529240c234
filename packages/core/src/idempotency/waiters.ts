// Who in this process waits for an attempt somewhere else to end. Wake-ups are hints: whoever is woken asks again.

import type { Clock } from '../ports/clock.ts'

export interface Waiting {
  /** Until a wake-up since `join`, or for `forMs`. */
  sleep(forMs: number): Promise<void>
  leave(): void
}

export class Waiters {
  readonly #clock: Clock
  readonly #byKey = new Map<string, { readonly wakes: Set<() => void>; turn: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Before the store is asked, so that no wake-up falls in between. Undefined when `max` wait already. */
  join(key: string, max: number): Waiting | undefined {
    const all = this.#byKey.get(key) ?? { wakes: new Set(), turn: 0 }
    if (all.wakes.size >= max) return undefined
    let woken = false
    let stir: () => void = () => {}
    const wake = () => {
      woken = true
      stir()
    }
    all.wakes.add(wake)
    this.#byKey.set(key, all)
    return {
      sleep: async (forMs) => {
        if (!woken)
          await new Promise<void>((resolve) => {
            const timer = this.#clock.setTimer(forMs, resolve)
            stir = () => {
              timer.cancel()
              resolve()
            }
          })
        woken = false
      },
      leave: () => {
        all.wakes.delete(wake)
        if (all.wakes.size === 0) this.#byKey.delete(key)
      },
    }
  }

  /** Counts the wake-ups of those who wait: what was asked before one does not know what it told. */
  turn(key: string): number {
    return this.#byKey.get(key)?.turn ?? 0
  }

  wake(key: string): void {
    const all = this.#byKey.get(key)
    if (all === undefined) return
    all.turn += 1
    for (const wake of [...all.wakes]) wake()
  }

  wakeAll(): void {
    for (const key of [...this.#byKey.keys()]) this.wake(key)
  }
}
