// How long to wait before connecting again.

/** Exponential to one second, with jitter: a fleet must not come back in one moment. */
export function retryDelayMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt, 10), 1_000) * (0.5 + Math.random() / 2)
}
