// The promise that a middleware returns to Koa. It resolves as soon as ctx has the response, even
// if core is still at work.

export interface ReturnPromise {
  /** Core has begun to send a response or to run the handler. */
  begun: boolean
  readonly promise: Promise<void>
  /** Call it when ctx has the response. */
  readonly given: () => void
  /** Call it with the error for Koa. */
  readonly threw: (error: unknown) => void
}

export function createReturnPromise(): ReturnPromise {
  let given: () => void = () => {}
  let threw: (error: unknown) => void = () => {}
  const promise = new Promise<void>((resolve, reject) => {
    given = resolve
    threw = reject
  })
  return { begun: false, promise, given, threw }
}
