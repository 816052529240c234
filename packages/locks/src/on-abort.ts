// One listener on an AbortSignal for all waiters. Many waiters may share one signal, such as the
// signal of the shutdown.

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `callback` once when `signal` aborts. Returns a function that removes the callback. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return () => {}
  let callbacks = listeners.get(signal)
  if (callbacks === undefined) {
    callbacks = new Set()
    listeners.set(signal, callbacks)
  }
  const { size } = callbacks.add(callback)
  if (size === 1) signal.addEventListener('abort', callAll)
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return
    signal.removeEventListener('abort', callAll)
  }
}

function callAll(this: AbortSignal): void {
  const callbacks = [...(listeners.get(this) ?? [])]
  listeners.delete(this)
  for (const callback of callbacks) callback()
}
