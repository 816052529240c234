// The delay before the next attempt to connect.

/** Doubles up to one second. The random part keeps a fleet from reconnecting all at once. */
export function retryDelayMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt, 10), 1_000) * (0.5 + Math.random() / 2)
}
