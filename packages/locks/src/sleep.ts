// A pause that an AbortSignal ends early, without an error.

import type { Clock } from '@stampede/core/store'
import { onAbort } from './on-abort.ts'

export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      timer.cancel()
      stop()
      resolve()
    }
    const timer = clock.setTimer(ms, end)
    const stop = onAbort(signal, end)
  })
}
