// Runs every microtask there is, now: the queue is empty when this returns, however long the chains of promises are. So one
// step of the simulation is over when the event loop would say so too, without a turn of the event loop.

import { setFlagsFromString } from 'node:v8'

/** V8's own checkpoint, as Node calls it after each callback. Does nothing inside a microtask: call it from a macrotask. */
export const drain: () => void = checkpoint()

function checkpoint(): () => void {
  setFlagsFromString('--allow-natives-syntax')
  const made = new Function('%PerformMicrotaskCheckpoint()') as () => void
  // It is compiled when it is first called, and never again: by then nobody may write such things.
  setFlagsFromString('--no-flush-bytecode')
  made()
  setFlagsFromString('--no-allow-natives-syntax')
  return made
}

/** Runs `work` where microtasks can be drained, and hands on what it returns or throws. */
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
