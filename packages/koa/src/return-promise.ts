// The promise that a middleware returns to Koa. It resolves as soon as ctx has the response, even
// if core is still at work.

export interface ReturnPromise {
  /** Whether core has begun to send a response or to run the handler. */
  begun: boolean
  readonly promise: Promise<void>
  /** Resolves the promise. Call it when ctx has the response. */
  readonly resolve: () => void
  /** Rejects the promise with the error for Koa. */
  readonly reject: (error: unknown) => void
}

export function createReturnPromise(): ReturnPromise {
  let resolve: () => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<void>((onSuccess, onError) => {
    resolve = onSuccess
    reject = onError
  })
  return { begun: false, promise, resolve, reject }
}
