// The moment at which both connections were first usable. It may never come: whoever waits for it does so within a budget, and
// nothing is left behind of those who gave up.

import { withBudget } from './budget.ts'

export class Opening {
  #isOver = false
  readonly #waiting = new Set<() => void>()

  constructor(opened: Promise<unknown>) {
    void opened.then(() => {
      this.#isOver = true
      for (const go of this.#waiting) go()
    })
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Rejects when the budget is spent before. */
  async within(budgetMs: number): Promise<void> {
    if (this.#isOver) return
    let go = () => {}
    const opened = new Promise<void>((resolve) => {
      go = resolve
    })
    this.#waiting.add(go)
    try {
      await withBudget(budgetMs, opened)
    } finally {
      this.#waiting.delete(go)
    }
  }
}
