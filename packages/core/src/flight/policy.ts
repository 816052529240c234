// The timing options that `stampedeCache` and `getOrSet` share: type, defaults, checks.

import { number, type Reader } from '../options.ts'

/** The timing options of one request or call. */
export interface Policy {
  readonly leaseMs: number
  readonly waitMs: number
  readonly originTimeoutMs: number
  /** If a fill takes longer, waiters are served the stale entry, if there is one. */
  readonly softTimeoutMs?: number | undefined
  readonly revalidate: 'background' | 'foreground'
}

export const DEFAULT_LEASE_MS = 5_000
export const DEFAULT_WAIT_MS = 30_000
export const DEFAULT_ORIGIN_TIMEOUT_MS = 30_000

export const jitter: Reader<number> = number(0.1, {
  min: 0,
  max: 0.5,
  unit: 'the lifetime',
  fraction: true,
})
