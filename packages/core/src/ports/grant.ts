// One handing-out of a lease.

/** The right to one key until the lease ends. What it writes is accepted while it is the newest grant. */
export interface Grant {
  readonly key: string
  /** 128 random bits naming this attempt; repeating a lookup with it returns the same lease. */
  readonly token: string
  /** Strictly increasing per key, in decimal: max(previous + 1, the store's clock in microseconds). */
  readonly fence: string
}

/** A fence as users see it. The empty one stands for a run without a lease. */
export function publicFence(fence: string): bigint | undefined {
  return /^\d+$/.test(fence) ? BigInt(fence) : undefined
}
