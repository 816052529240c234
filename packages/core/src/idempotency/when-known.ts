// Calls the next stage at once with a value, and later with a promised one. A promise for each stage
// would cost more than most stages do.

export function whenKnown<T, R>(
  value: T | Promise<T>,
  next: (value: T) => R | Promise<R>,
): R | Promise<R> {
  // The app's own thenable may return nothing from then(). A promise is taken as it is.
  return isThenable(value) ? Promise.resolve(value).then(next) : next(value)
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
