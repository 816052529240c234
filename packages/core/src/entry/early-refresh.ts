// Random early refresh: decides at random whether a hit refreshes an entry that is still fresh. The
// probability rises towards the expiry, and it is higher if the origin is slow. Among many
// requests, one starts the refresh in time, and rarely two.

/** Largest value of -ln(rand) for a random number: -ln(2^-53), rounded up. */
const LARGEST_NEGATIVE_LOG = 36.8

/**
 * Whether this hit starts the refresh, by the formula now − δ·β·ln(rand) ≥ expiry. Here rand is
 * from (0, 1], and δ is the duration of a run (`tookMs`). The usual value of β is 1. The
 * probability for one hit is exp(−remaining / (δ·β)). Source: A. Vattani, F. Chierichetti, K.
 * Lowenstein: Optimal Probabilistic Cache Stampede Prevention, PVLDB 8(8), 2015,
 * doi:10.14778/2757807.2757813 (called XFetch there).
 */
export function startsEarlyRefresh(
  remainingMs: number,
  tookMs: number,
  beta: number,
  random: () => number,
): boolean {
  const scaleMs = tookMs * beta
  // Most hits are so far from the expiry that no random number can start a refresh.
  if (remainingMs > scaleMs * LARGEST_NEGATIVE_LOG) return false
  return -scaleMs * Math.log(1 - random()) >= remainingMs
}
