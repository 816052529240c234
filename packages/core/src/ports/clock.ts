// Time as a process sees it. Every duration in core is measured on `now()`; nothing here is ever
// compared with a moment that another machine read (DESIGN: Redis TIME is the fleet's only clock).

// The global of that name is looked up anew each time.
import { performance } from 'node:perf_hooks'

/** A pending timer; `cancel()` is safe to call at any time, also after it ran. */
export interface Timer {
  cancel(): void
}

export interface Clock {
  /** Milliseconds on a clock that never goes backwards. Its zero means nothing. */
  now(): number
  /** Milliseconds since the Unix epoch, for `Date` headers only. */
  wallNow(): number
  /** Calls `callback` once after `delayMs`. The timer never keeps the process alive. */
  setTimer(delayMs: number, callback: () => void): Timer
}

/** setTimeout fires at once for longer delays, so a longer one is cut: 24.8 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  // Whole: it is before a whole moment exactly if the time with its fraction is, and engines keep whole numbers without a box.
  now: () => Math.floor(performance.now()),
  wallNow: () => Date.now(),
  setTimer(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(Math.max(delayMs, 0), LONGEST_TIMER_MS))
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}
