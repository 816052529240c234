// The longest time in which nothing else could run in this process, as a timer of a millisecond sees it.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

const delay = monitorEventLoopDelay({ resolution: 1 })
/** A timer needs some turns: the first one after a reset is not counted, and what was the last turn is counted by the next. */
const TURNS_MS = 20

/** What comes after it is watched. */
export async function watchBlocking(): Promise<void> {
  delay.enable()
  await sleep(TURNS_MS)
  delay.reset()
  await sleep(TURNS_MS)
}

export async function blockedMs(): Promise<number> {
  await sleep(TURNS_MS)
  delay.disable()
  // What is counted is the whole of a turn, of which a millisecond was wanted.
  return Math.max(0, delay.max / 1e6 - 1)
}
