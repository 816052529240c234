// The clock of a process. Core measures every duration with `now()`. Two machines never compare
// their clocks, because Redis TIME is the only clock of the fleet.

// Imported because Node looks up the global `performance` on each access, which is slower.
import { performance } from 'node:perf_hooks'

/** A pending timer. `cancel()` may be called at any time, also after the timer fired. */
export interface Timer {
  cancel(): void
}

/** Time and timers. Tests replace it. */
export interface Clock {
  /**
   * Milliseconds on a clock that never goes back. It continues while the machine is suspended,
   * because leases and copies end meanwhile. The clock may start at any number.
   */
  now(): number
  /** Milliseconds since the Unix epoch, for `Date` headers only. */
  wallNow(): number
  /** Calls `callback` once after `delayMs`. The timer never keeps the process alive. */
  setTimer(delayMs: number, callback: () => void): Timer
  /** Returns numbers from 0 to 1, for jitter and random pauses. Default `Math.random`. */
  random?(): number
}

const MOST_LATE_MS = 1_000

/**
 * Whether a timer that was set for `dueAt` is overdue because the machine was suspended. During a
 * suspension the clock advances and timers do not, so the code that set the timer sets it again.
 */
export function isOverdue(dueAt: number, now: number): boolean {
  return dueAt < now - MOST_LATE_MS
}

/** A change of less than this between the two clocks is ignored as a rounding error. */
const ROUNDING_MS = 10
/**
 * Limit of tries to read both clocks at one moment. The process may be interrupted between the two
 * readings. After the last try, its result is used.
 */
const MOST_READINGS = 5

/**
 * A clock that advances with the faster one of two clocks. The monotonic clock stands still while
 * the machine is suspended, and the wall clock may be set back. If the wall clock is set forward,
 * this clock advances as well. At worst, leases and copies end early.
 *
 * The clocks are compared only once per millisecond, since each reading costs time.
 */
export function steadyClock(monotonic: () => number, wall: () => number): () => number {
  let missedMs = 0
  let comparedAt = Number.NaN
  let differenceMs = readDifference(monotonic, wall)

  function adjust(): void {
    const currentMs = readDifference(monotonic, wall)
    const changeMs = currentMs - differenceMs
    if (Math.abs(changeMs) <= ROUNDING_MS) return
    if (changeMs > 0) missedMs += Math.ceil(changeMs)
    differenceMs = currentMs
  }

  return () => {
    // Rounded down to whole milliseconds, because JavaScript engines keep small whole numbers
    // unboxed. Comparisons with moments in whole milliseconds give the same result.
    const ms = Math.floor(monotonic())
    if (ms !== comparedAt) {
      comparedAt = ms
      if (Math.abs(wall() - monotonic() - differenceMs) > ROUNDING_MS) adjust()
    }
    return ms + missedMs
  }
}

/** Wall clock minus monotonic clock, in ms, from a reading that was not interrupted. */
function readDifference(monotonic: () => number, wall: () => number): number {
  for (let reading = 1; ; reading++) {
    const before = monotonic()
    const at = wall()
    const after = monotonic()
    if (after - before < 1 || reading === MOST_READINGS) return at - after
  }
}

/** Limit of a delay (24.8 days). With a longer delay, `setTimeout` would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** The clock of the process and of the machine. */
export const systemClock: Clock = {
  now: steadyClock(performance.now.bind(performance), Date.now),
  wallNow: () => Date.now(),
  setTimer(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), LONGEST_TIMER_MS))
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}
