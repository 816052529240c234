// A time limit for a pending command.

import type { ExtraBudget } from './extra-budget.ts'

/**
 * Settles like `promise`, but rejects when the time budget is over. With `extraBudget`, it rejects
 * only after the extra time.
 */
export function withBudget<T>(
  budgetMs: number,
  promise: Promise<T>,
  extraBudget?: Pick<ExtraBudget, 'startMs'>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let spentMs = 0
    let timer: NodeJS.Timeout | undefined
    const wait = (ms: number) => {
      spentMs += ms
      // Node runs timers before it reads sockets. After a blocked event loop, the reply may already
      // be in the socket. Two turns of the loop deliver it.
      timer = setTimeout(() => setImmediate(() => setImmediate(onTimeout)), ms)
    }
    const onTimeout = () => {
      if (timer === undefined) return
      const moreMs = spentMs > budgetMs ? 0 : (extraBudget?.startMs() ?? 0)
      if (moreMs > 0) wait(moreMs)
      else reject(new Error(`no reply within ${Math.round(spentMs)} ms`))
    }
    const end = () => {
      clearTimeout(timer)
      timer = undefined
    }
    wait(budgetMs)
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
