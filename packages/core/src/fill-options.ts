// Options of fills that stampedeCache and getOrSet share: their types, and the check and default of
// each.

import { durationMs, number, type ReadBy, type Reader } from './options.ts'

export interface FillRules {
  /**
   * Shortens each lifetime by a random part, up to this fraction of it, so that entries do not
   * expire together. From 0 to 0.5. Default 0.1.
   */
  jitter?: number | undefined
  /**
   * How long a lease lasts without renewal. A process renews its lease while it runs the handler or
   * factory. If that process crashes, other processes wait this long. At least 100. Default 5 000.
   */
  leaseMs?: number | undefined
  /**
   * How long requests and calls wait for a fill if there is a stale entry. They then get that
   * entry, and the fill goes on. At least 1. Default: no such limit.
   */
  softTimeoutMs?: number | undefined
}

export const FILL_OPTIONS: {
  readonly jitter: Reader<number>
  readonly leaseMs: Reader<number>
  readonly softTimeoutMs: Reader<number | undefined>
} = {
  jitter: number(0.1, { min: 0, max: 0.5, unit: 'the lifetime', fraction: true }),
  leaseMs: durationMs(5_000, 100),
  softTimeoutMs: durationMs(undefined, 1),
}

/** The checked options. */
export type FillConfig = ReadBy<typeof FILL_OPTIONS>
