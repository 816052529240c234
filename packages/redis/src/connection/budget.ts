// Time budgets for commands.

/** Rejects when the budget is spent. */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`no answer within ${budgetMs} ms`))
    // Timers run before sockets are read. After a blocked event loop the reply may be there
    // already, so the loop gets two turns to deliver it.
    const timer = setTimeout(() => setImmediate(() => setImmediate(late)), budgetMs)
    promise.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
