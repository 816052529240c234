// Drift: the last part of a lease, which its holder does not use.

/**
 * Drift of a lease, in ms: 1 % of the lease for clocks that run at different speeds, and 2 ms for
 * rounding.
 */
export function driftMs(leaseMs: number): number {
  return leaseMs * 0.01 + 2
}
