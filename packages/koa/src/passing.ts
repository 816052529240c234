// The promise that a middleware returns to Koa. Koa writes the response only after all middlewares
// have returned. So a middleware must return as soon as ctx has the response, even if core is still
// at work.

/** An exchange whose middleware returns a promise to Koa. */
export interface Passing {
  /** Set when core has begun to respond: settles as soon as Koa may go on. */
  passed: Promise<void> | undefined
  /** Settles the promise of a middleware that returned before. */
  answer: { resolve(passed?: void | Promise<void>): void; reject(error: unknown): void } | undefined
}

export const PASSED: Promise<void> = Promise.resolve()

export function goOnAfter(exchange: Passing, passed: Promise<void>): void {
  exchange.passed = passed
  exchange.answer?.resolve(passed)
}

/** The promise that a middleware returns. `handled`: core has finished. */
export function answerOf(exchange: Passing, handled: void | Promise<void>): Promise<void> {
  const { passed } = exchange
  if (handled === undefined) return passed ?? PASSED
  if (passed !== undefined) {
    handled.catch((error) => process.emitWarning(error instanceof Error ? error : String(error)))
    return passed
  }
  return new Promise((resolve, reject) => {
    exchange.answer = { resolve, reject }
    handled.then(() => void (exchange.passed ?? resolve()), reject)
  })
}
