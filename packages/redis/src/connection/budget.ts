// Time budgets for commands.

import type { Patience } from './patience.ts'

/** Rejects when the budget is spent, and with it the extra time that `patience` allows. */
export function withBudget<T>(
  budgetMs: number,
  promise: Promise<T>,
  patience?: Pick<Patience, 'moreMs'>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let spentMs = 0
    let timer: NodeJS.Timeout | undefined
    const wait = (ms: number) => {
      spentMs += ms
      // Timers run before sockets are read. After a blocked event loop the reply may be there
      // already, so the loop gets two turns to deliver it.
      timer = setTimeout(() => setImmediate(() => setImmediate(late)), ms)
    }
    const late = () => {
      if (timer === undefined) return
      const moreMs = spentMs > budgetMs ? 0 : (patience?.moreMs() ?? 0)
      if (moreMs > 0) wait(moreMs)
      else reject(new Error(`no answer within ${Math.round(spentMs)} ms`))
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
