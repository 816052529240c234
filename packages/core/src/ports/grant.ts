// Grants: the leases that a store gave out, with their tokens and fences.

/**
 * The right to one key until the lease ends. The store accepts a write with this grant only if no
 * newer grant of the key exists.
 */
export interface Grant {
  readonly key: string
  /**
   * 128 random bits for this grant. A command that is repeated with the same token gets the same
   * lease.
   */
  readonly token: string
  /**
   * Decimal number that increases with each grant of the key: max(previous + 1, the store's clock
   * in microseconds).
   */
  readonly fence: string
}

/**
 * A fence as users see it. Undefined for the empty fence, which stands for a run without a lease.
 */
export function publicFence(fence: string): bigint | undefined {
  return /^\d+$/.test(fence) ? BigInt(fence) : undefined
}
