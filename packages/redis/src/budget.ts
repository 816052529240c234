// A time budget for what is asked of Redis. Whatever begins within a millisecond is late together: a timer for each would be a tenth
// of what a command costs.

const TOGETHER_MS = 1

class Deadline {
  readonly budgetMs: number
  readonly #begunAt = performance.now()
  readonly #timer: NodeJS.Timeout
  readonly #late: Array<() => void> = []
  #left = 0

  constructor(budgetMs: number) {
    this.budgetMs = budgetMs
    // Timers run before sockets are read: after a blocked event loop the reply is there already, so the loop gets two turns to
    // hand it over before it is called late.
    this.#timer = setTimeout(() => setImmediate(() => setImmediate(() => this.#pass())), budgetMs)
  }

  isOf(budgetMs: number): boolean {
    return this.budgetMs === budgetMs && performance.now() - this.#begunAt < TOGETHER_MS
  }

  /** `onLate` does nothing once it was settled. */
  add(onLate: () => void): void {
    this.#left += 1
    this.#late.push(onLate)
  }

  /** One of them was settled. Nobody may be added after the last. */
  settled(): void {
    this.#left -= 1
    if (this.#left > 0) return
    clearTimeout(this.#timer)
    if (latest === this) latest = undefined
  }

  #pass(): void {
    if (latest === this) latest = undefined
    for (const onLate of this.#late) onLate()
  }
}

let latest: Deadline | undefined

/** Rejects when the budget is spent. */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  const deadline = latest?.isOf(budgetMs) ? latest : new Deadline(budgetMs)
  latest = deadline
  return new Promise((resolve, reject) => {
    deadline.add(() => reject(new Error(`no answer within ${budgetMs} ms`)))
    promise.then(
      (value) => {
        deadline.settled()
        resolve(value)
      },
      (error) => {
        deadline.settled()
        reject(error)
      },
    )
  })
}
