// The time budget of background work, and the delay before the next attempt to connect. The budget
// of a command is `commandTimeoutMs` of stores/redis-store.ts.

import { afterReplies } from './servers.ts'

/** Settles like `promise`, but rejects when the time budget is over. For background work. */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onTimeout = () => reject(new Error(`no reply within ${Math.round(budgetMs)} ms`))
    const timer = setTimeout(() => afterReplies(onTimeout), budgetMs)
    // After close(), a reply that will not come does not keep the process alive.
    timer.unref()
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** How long operations wait for the first connection, and have whole budgets after it. */
export function patienceMs(budgetMs: number): number {
  return Math.max(budgetMs, 1_000)
}

/** Doubles up to one second. The random part keeps a fleet from reconnecting all at once. */
export function retryDelayMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt, 10), 1_000) * (0.5 + Math.random() / 2)
}
