// An origin that a run can hold, and the longest time for which the event loop is blocked.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

const delay = monitorEventLoopDelay({ resolution: 1 })
/** The timer skips its first turn after a reset. It counts a turn when the next one begins. */
const TURNS_MS = 20

/** Starts to measure the longest time for which the event loop is blocked. */
export async function watchBlocking(): Promise<void> {
  delay.enable()
  await sleep(TURNS_MS)
  delay.reset()
  await sleep(TURNS_MS)
}

export async function blockedMs(): Promise<number> {
  await sleep(TURNS_MS)
  delay.disable()
  // The histogram has the whole length of a turn. A millisecond of it is the timer's own interval.
  return Math.max(0, delay.max / 1e6 - 1)
}

export const origin = { calls: 0, arrived: 0, end: (): void => {}, hasEnded: Promise.resolve() }

/** The next calls of the origin wait for `end`. */
export function hold(): void {
  origin.calls = 0
  origin.arrived = 0
  origin.hasEnded = new Promise((resolve) => {
    origin.end = resolve
  })
}
