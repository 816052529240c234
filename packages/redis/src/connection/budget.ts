// Time budgets for commands. Commands that are sent together share one timer, since a timer for
// each would add a tenth to their cost.

class Deadline {
  readonly budgetMs: number
  readonly #timer: NodeJS.Timeout
  readonly #late: Array<() => void> = []
  #left = 0

  constructor(budgetMs: number) {
    this.budgetMs = budgetMs
    // Timers run before sockets are read. After a blocked event loop the reply may be there
    // already, so the loop gets two turns to deliver it.
    this.#timer = setTimeout(() => setImmediate(() => setImmediate(() => this.#pass())), budgetMs)
    // Commands sent in the same turn of the microtask queue share the timer. Later ones get a new
    // one.
    queueMicrotask(() => this.#close())
  }

  /** `onLate` must have no effect once its command has settled. */
  add(onLate: () => void): void {
    this.#left += 1
    this.#late.push(onLate)
  }

  /** One command has settled. After the last one no command may join. */
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
