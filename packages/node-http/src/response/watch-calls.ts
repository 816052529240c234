// Watches calls of one method of an object.

/** Calls `note` with the arguments before each call. Does nothing if there is no such method. */
export function watchCalls(
  target: object,
  method: string,
  note: (...args: readonly unknown[]) => void,
): void {
  const original: unknown = Reflect.get(target, method)
  if (typeof original !== 'function') return
  const own = (...args: readonly unknown[]): unknown => {
    note(...args)
    return Reflect.apply(original, target, args)
  }
  Object.assign(target, { [method]: own })
}
