// Time limits of pending commands.

import type { Clock } from '@stampede/core/store'

/** A step that waits for a reply. */
export interface Limited {
  /** How long it may wait. */
  readonly limitMs: number
  /** Called when its time is over. Must not throw. */
  expire(): void
}

/** The time limits of all steps of one link, on one timer. */
export class TimeLimits {
  readonly #clock: Clock
  /** The pending steps, and when their time is over. */
  readonly #pending = new Map<Limited, number>()
  #beginning: Limited[] = []
  #timer: NodeJS.Timeout | undefined
  /** When the timer fires. */
  #timerAt = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The time begins at the end of this turn of the event loop. Before, the callers of other replies
   * may block the loop, and node-redis sends nothing.
   */
  add(limited: Limited): void {
    this.#pending.set(limited, Number.POSITIVE_INFINITY)
    if (this.#beginning.push(limited) === 1) setImmediate(this.#begin)
  }

  delete(limited: Limited): void {
    this.#pending.delete(limited)
  }

  readonly #begin = (): void => {
    const now = this.#clock.now()
    for (const limited of this.#beginning) {
      if (!this.#pending.has(limited)) continue
      const dueAt = now + limited.limitMs
      this.#pending.set(limited, dueAt)
      if (dueAt < this.#timerAt) this.#wakeAt(dueAt)
      // The clock went on while the timer stood still, as it does in a suspended machine.
      else if (this.#timerAt < now) this.#wakeAt(now + 1)
    }
    this.#beginning = []
  }

  #wakeAt(at: number): void {
    clearTimeout(this.#timer)
    this.#timerAt = at
    const onTimer = () => {
      // A reply to a step that is due later may not be read by then.
      const now = this.#clock.now()
      afterReplies(() => this.#expire(now))
    }
    this.#timer = setTimeout(onTimer, Math.max(1, at - this.#clock.now())).unref()
  }

  #expire(now: number): void {
    this.#timerAt = Number.POSITIVE_INFINITY
    for (const [limited, dueAt] of this.#pending) {
      if (dueAt <= now) limited.expire()
      else if (dueAt < this.#timerAt) this.#wakeAt(dueAt)
    }
  }
}

/** Settles like `promise`, but rejects when the time budget is over. For background work. */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onTimeout = () => reject(new Error(`no reply within ${Math.round(budgetMs)} ms`))
    const timer = setTimeout(() => afterReplies(onTimeout), budgetMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/**
 * Node runs timers before it reads sockets. After a blocked event loop, the replies may already be
 * in the socket. Two turns of the loop deliver them.
 */
export function afterReplies(callback: () => void): void {
  setImmediate(() => setImmediate(callback))
}
