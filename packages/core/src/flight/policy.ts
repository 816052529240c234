// The timing of one request or call: its type, its defaults, and the readers that both kinds of options share.

import { number, type Reader } from '../options.ts'

/** The timing that one request or call asks for. */
export interface Policy {
  readonly leaseMs: number
  readonly waitMs: number
  readonly originTimeoutMs: number
  /** After this those who wait are answered with what is stale, if there is something. */
  readonly softTimeoutMs?: number | undefined
  readonly revalidate: 'background' | 'foreground'
  /** β of `drawsEarly`; 0: nothing is refreshed before its time. */
  readonly earlyRefresh: number
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
export const earlyRefresh: Reader<number> = number(0, {
  min: 0,
  max: 100,
  unit: 'the duration of a run',
  fraction: true,
})
