// Calls the next function at once with a value, or later with the value of a promise. A promise per
// call would cost more than most of these functions.

export function whenKnown<T, R>(
  value: T | Promise<T>,
  next: (value: T) => R | Promise<R>,
): R | Promise<R> {
  // `Promise.resolve` wraps a thenable of the app, whose then() need not return a promise.
  return isThenable(value) ? Promise.resolve(value).then(next) : next(value)
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
