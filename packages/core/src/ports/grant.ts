// Grants: the leases that a store gave out, with their tokens and fences.

import type { Clock } from './clock.ts'

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
 * In place of a fence: any. The caller of a command whose reply was lost knows the token of its
 * grant, but not the fence. A store then compares only the token.
 */
export const ANY_FENCE = '*'

/**
 * A fence as users see it. Undefined for the empty fence, which stands for a run without a lease.
 */
export function publicFence(fence: string): bigint | undefined {
  return /^\d+$/.test(fence) ? BigInt(fence) : undefined
}

/** The fences of a process that is alone: max(previous + 1, the wall clock in microseconds). */
export class Fences {
  readonly #clock: Pick<Clock, 'wallNow'>
  #last = 0

  constructor(clock: Pick<Clock, 'wallNow'>) {
    this.#clock = clock
  }

  next(): string {
    this.#last = Math.max(this.#last + 1, Math.floor(this.#clock.wallNow() * 1000))
    return String(this.#last)
  }
}
