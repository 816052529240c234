// Time limits of pending commands, and the delay before the next attempt to connect.

import type { Clock } from '@stampede/core/store'

/** A step that waits for a reply. */
export interface Limited {
  /** How long it may wait. */
  readonly limitMs: number
  /** When its time is over. */
  dueAt: number
  /** Index among the pending steps. -1: the step is not pending. */
  place: number
  /** Called when its time is over. Must not throw. */
  expire(): void
}

/** The time limits of all steps of one link, on one timer. */
export class TimeLimits {
  readonly #clock: Clock
  /**
   * The pending steps, in no order. An array, because the tables that a Map outgrows keep its
   * deleted keys alive for the garbage collector.
   */
  readonly #pending: Limited[] = []
  #beginning: Limited[] = []
  #timer: NodeJS.Timeout | undefined
  /** When the timer fires. */
  #timerAt = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The time begins at the end of this turn of the event loop. Before, the callers of other replies
   * may block the loop, and the socket is corked.
   */
  add(limited: Limited): void {
    limited.dueAt = Number.POSITIVE_INFINITY
    limited.place = this.#pending.push(limited) - 1
    if (this.#beginning.push(limited) === 1) setImmediate(this.#begin)
  }

  delete(limited: Limited): void {
    const { place } = limited
    if (place === -1) return
    limited.place = -1
    const last = this.#pending.pop()
    if (last === undefined || last === limited) return
    this.#pending[place] = last
    last.place = place
  }

  readonly #begin = (): void => {
    const now = this.#clock.now()
    for (const limited of this.#beginning) {
      if (limited.place === -1) continue
      const dueAt = now + limited.limitMs
      limited.dueAt = dueAt
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
    for (const limited of [...this.#pending]) {
      if (limited.place === -1) continue
      if (limited.dueAt <= now) limited.expire()
      else if (limited.dueAt < this.#timerAt) this.#wakeAt(limited.dueAt)
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
function afterReplies(callback: () => void): void {
  setImmediate(() => setImmediate(callback))
}

/** How long operations wait for the first connection, and have whole budgets after it. */
export function patienceMs(budgetMs: number): number {
  return Math.max(budgetMs, 1_000)
}

/** Doubles up to one second. The random part keeps a fleet from reconnecting all at once. */
export function retryDelayMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt, 10), 1_000) * (0.5 + Math.random() / 2)
}
