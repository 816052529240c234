// Runs all microtasks now: the queue is empty when this returns, however long the chains of
// promises are. So one step of the simulation is over as it would be after a turn of the event
// loop, but without one.

import { setFlagsFromString } from 'node:v8'

/**
 * V8's own checkpoint, as Node calls it after each callback. It does nothing inside a microtask, so
 * call it from a macrotask.
 */
export const drain: () => void = checkpoint()

function checkpoint(): () => void {
  setFlagsFromString('--allow-natives-syntax')
  const made = new Function('%PerformMicrotaskCheckpoint()') as () => void
  // The native syntax is only allowed while this is compiled, at its first call, and never
  // afterwards.
  setFlagsFromString('--no-flush-bytecode')
  made()
  setFlagsFromString('--no-allow-natives-syntax')
  return made
}

/** Runs `work` where microtasks can be drained, and passes on its result or error. */
export function inMacrotask<T>(work: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        resolve(work())
      } catch (error) {
        reject(error)
      }
    })
  })
}
