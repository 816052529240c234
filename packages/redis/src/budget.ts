// A time budget for what is asked of Redis. Whatever is asked at one time is late together: a timer for each would be a tenth of what a
// command costs.

class Deadline {
  readonly budgetMs: number
  readonly #timer: NodeJS.Timeout
  readonly #late: Array<() => void> = []
  #left = 0

  constructor(budgetMs: number) {
    this.budgetMs = budgetMs
    // Timers run before sockets are read: after a blocked event loop the reply is there already, so the loop gets two turns to
    // hand it over before it is called late.
    this.#timer = setTimeout(() => setImmediate(() => setImmediate(() => this.#pass())), budgetMs)
    // Promises that settled together go on together: who asks now comes before this.
    queueMicrotask(() => this.#close())
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
    this.#close()
  }

  #close(): void {
    if (latest === this) latest = undefined
  }

  #pass(): void {
    for (const onLate of this.#late) onLate()
  }
}

let latest: Deadline | undefined

/** Rejects when the budget is spent. */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  const deadline = latest?.budgetMs === budgetMs ? latest : new Deadline(budgetMs)
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
