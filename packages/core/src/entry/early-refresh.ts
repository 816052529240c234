// Early refresh: decides by chance when a fresh entry is refreshed before it expires. The chance
// grows towards the end, and with a slower origin. So among many requests one begins in time, and
// hardly ever two.

/** No number from 0 to 1 gives more: -ln(2^-53), the least there is above 0. */
const LATEST = 36.8

/**
 * Whether this hit is the one to refresh: now − δ·β·ln(rand) ≥ expiry, with rand from (0, 1], δ the time a run takes, and β = 1 as
 * the best guess. Over all hits the chance is exp(−remaining / (δ·β)) each. A. Vattani, F. Chierichetti, K. Lowenstein: Optimal
 * Probabilistic Cache Stampede Prevention, PVLDB 8(8), 2015, doi:10.14778/2757807.2757813 (there called XFetch).
 */
export function drawsEarly(
  remainingMs: number,
  tookMs: number,
  beta: number,
  random: () => number,
): boolean {
  const scaleMs = tookMs * beta
  // Most hits are too far from the end for any draw.
  if (remainingMs > scaleMs * LATEST) return false
  return -scaleMs * Math.log(1 - random()) >= remainingMs
}
