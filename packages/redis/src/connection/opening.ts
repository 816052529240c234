// The wait until both connections are usable for the first time. They may never become usable, so
// each wait has a time budget. A wait that has timed out leaves nothing in memory.

import { withBudget } from './budget.ts'

export class Opening {
  #isDone = false
  readonly #waiting = new Set<(error?: Error) => void>()

  constructor(opened: Promise<unknown>) {
    void opened.then(() => {
      this.#isDone = true
      for (const resolve of this.#waiting) resolve()
    })
  }

  /** Ends all waits. */
  close(error: Error): void {
    for (const settle of this.#waiting) settle(error)
  }

  get isDone(): boolean {
    return this.#isDone
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Resolves when the connections are usable. Rejects if the budget is over before. */
  async wait(budgetMs: number): Promise<void> {
    if (this.#isDone) return
    let onOpened: (error?: Error) => void = () => {}
    const opened = new Promise<void>((resolve, reject) => {
      onOpened = (error) => (error === undefined ? resolve() : reject(error))
    })
    this.#waiting.add(onOpened)
    try {
      await withBudget(budgetMs, opened)
    } finally {
      this.#waiting.delete(onOpened)
    }
  }
}
