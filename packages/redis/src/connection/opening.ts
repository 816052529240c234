// The wait until both connections are usable for the first time. That may never happen, so each
// waiter has a budget. A waiter that gave up leaves nothing in memory.

import { withBudget } from './budget.ts'

export class Opening {
  #isDone = false
  readonly #waiting = new Set<() => void>()

  constructor(opened: Promise<unknown>) {
    void opened.then(() => {
      this.#isDone = true
      for (const resolve of this.#waiting) resolve()
    })
  }

  get isDone(): boolean {
    return this.#isDone
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Rejects if the budget is spent first. */
  async wait(budgetMs: number): Promise<void> {
    if (this.#isDone) return
    let onOpened = () => {}
    const opened = new Promise<void>((resolve) => {
      onOpened = resolve
    })
    this.#waiting.add(onOpened)
    try {
      await withBudget(budgetMs, opened)
    } finally {
      this.#waiting.delete(onOpened)
    }
  }
}
