// The longest time for which the event loop of this process was blocked, measured by a 1 ms timer.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

const delay = monitorEventLoopDelay({ resolution: 1 })
/** The timer skips its first turn after a reset. It counts a turn when the next one begins. */
const TURNS_MS = 20

/** Starts a new measurement. */
export async function watchBlocking(): Promise<void> {
  delay.enable()
  await sleep(TURNS_MS)
  delay.reset()
  await sleep(TURNS_MS)
}

export async function blockedMs(): Promise<number> {
  await sleep(TURNS_MS)
  delay.disable()
  // The histogram has the whole length of a turn. One millisecond of it is the timer's own
  // interval.
  return Math.max(0, delay.max / 1e6 - 1)
}
