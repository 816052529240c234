// A time limit for a pending command.

/**
 * The time that all steps of one operation may wait for Redis. The wait in the queue before a
 * command is sent does not count.
 */
export interface Budget {
  leftMs: number
}

/** Settles like `promise`, but rejects when the time budget is over. */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let isPending = true
    const onTimeout = () => {
      if (isPending) reject(new Error(`no reply within ${Math.round(budgetMs)} ms`))
    }
    // Node runs timers before it reads sockets. After a blocked event loop, the reply may already
    // be in the socket. Two turns of the loop deliver it.
    const timer = setTimeout(() => setImmediate(() => setImmediate(onTimeout)), budgetMs)
    const end = () => {
      clearTimeout(timer)
      isPending = false
    }
    promise.then(
      (value) => {
        end()
        resolve(value)
      },
      (error) => {
        end()
        reject(error)
      },
    )
  })
}
