// The clock of a process. Core measures every duration on `now()`. It is never compared with a
// moment of another machine: Redis TIME is the fleet's only clock.

// Imported, because the global is looked up on each call.
import { performance } from 'node:perf_hooks'

/** A pending timer; `cancel()` is safe to call at any time, also after it ran. */
export interface Timer {
  cancel(): void
}

export interface Clock {
  /**
   * Milliseconds on a clock that never goes back, and continues while the machine is suspended:
   * leases and copies end meanwhile. Zero has no meaning.
   */
  now(): number
  /** Milliseconds since the Unix epoch, for `Date` headers only. */
  wallNow(): number
  /** Calls `callback` once after `delayMs`. The timer never keeps the process alive. */
  setTimer(delayMs: number, callback: () => void): Timer
}

/**
 * If a timer is late by more than this, the machine was suspended: timers stood still meanwhile, and
 * the clock did not. Then the timer has to be set again.
 */
export const MOST_LATE_MS = 1_000

/** A difference this small between both clocks is rounding, not time that one of them missed. */
const ROUNDING_MS = 10
/** Most readings to get one that was not interrupted. */
const MOST_READINGS = 5

/**
 * A clock that counts time by whichever clock has passed more. The monotonic clock stands still
 * while the machine is suspended, and the wall clock may be set back. If the wall clock is set
 * forward, that counts as time passed: leases and copies end early at worst.
 *
 * The clocks are compared once per millisecond, since a second reading costs as much as the first.
 */
export function steadyClock(monotonic: () => number, wall: () => number): () => number {
  let missedMs = 0
  let comparedAt = Number.NaN
  let apartMs = readApart(monotonic, wall)

  function compare(): void {
    if (Math.abs(wall() - monotonic() - apartMs) <= ROUNDING_MS) return
    const nowApartMs = readApart(monotonic, wall)
    const byMs = nowApartMs - apartMs
    if (Math.abs(byMs) <= ROUNDING_MS) return
    if (byMs > 0) missedMs += Math.ceil(byMs)
    apartMs = nowApartMs
  }

  return () => {
    // Whole milliseconds: comparisons with whole moments give the same result, and engines keep
    // whole numbers unboxed.
    const ms = Math.floor(monotonic())
    if (ms !== comparedAt) {
      comparedAt = ms
      compare()
    }
    return ms + missedMs
  }
}

/** Wall minus monotonic clock, from a reading that was not interrupted. */
function readApart(monotonic: () => number, wall: () => number): number {
  for (let reading = 1; ; reading++) {
    const before = monotonic()
    const at = wall()
    const after = monotonic()
    if (after - before < 1 || reading === MOST_READINGS) return at - after
  }
}

/** setTimeout fires at once for longer delays, so they are cut to 24.8 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: steadyClock(
    () => performance.now(),
    () => Date.now(),
  ),
  wallNow: () => Date.now(),
  setTimer(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), LONGEST_TIMER_MS))
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}
