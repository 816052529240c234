// The requests and jobs of this process that wait for the end of an attempt. A wake-up only makes a
// waiter repeat its `begin` command, so lost or repeated wake-ups do no harm.

import type { Clock } from '../ports/clock.ts'

export interface Waiting {
  /**
   * Waits for a wake-up, but at most for `forMs`. If a wake-up came after `join` or after the last
   * `sleep`, this promise resolves at once.
   */
  sleep(forMs: number): Promise<void>
  leave(): void
}

export class Waiters {
  readonly #clock: Clock
  readonly #byKey = new Map<string, { readonly wakes: Set<() => void>; turn: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Adds a waiter. Called before the `begin` command is sent, so that no wake-up is missed.
   * Undefined if there are `max` waiters already.
   */
  join(key: string, max: number): Waiting | undefined {
    const all = this.#byKey.get(key) ?? { wakes: new Set(), turn: 0 }
    if (all.wakes.size >= max) return undefined
    let woken = false
    let endSleep: () => void = () => {}
    const wake = () => {
      woken = true
      endSleep()
    }
    all.wakes.add(wake)
    this.#byKey.set(key, all)
    return {
      sleep: async (forMs) => {
        if (!woken)
          await new Promise<void>((resolve) => {
            const timer = this.#clock.setTimer(forMs, resolve)
            endSleep = () => {
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

  /**
   * Number of wake-ups of a key. Equal requests share one pending `begin` command, but only if this
   * number is equal for both. The reply to an older command may be outdated.
   */
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
