// Options of fills that stampedeCache and getOrSet share: their types, and the check and default of
// each.

import { type Defined, durationMs, number, type ReadBy, type Reader } from './options.ts'

/** How long an entry can be used after its freshness has ended. */
export interface WindowRules {
  /**
   * How long a stale entry is served while one process refreshes it (RFC 5861 §3). In a response,
   * `stale-while-revalidate` takes precedence. Default 0.
   */
  staleWhileRevalidateMs?: number | undefined
  /**
   * How long a stale entry is served if the handler or factory fails (RFC 5861 §4). In a response,
   * `stale-if-error` takes precedence. Default 0.
   */
  staleIfErrorMs?: number | undefined
  /**
   * How long a stale entry remains stored for revalidation (RFC 9111 §4.3). The handler gets the
   * `ETag` or `Last-Modified` of the entry as a condition, and may respond 304. A factory gets the
   * entry as `context.previous`. 0: no revalidation. Default 60 000 for stampedeCache, and 0 for
   * getOrSet.
   */
  keepMs?: number | undefined
}

/** The stale windows of an entry, in ms. All of them begin when its freshness ends. */
export type Windows = Defined<WindowRules>

export const WINDOWS: Readonly<Record<keyof Windows, Reader<number>>> = {
  staleWhileRevalidateMs: durationMs(0),
  staleIfErrorMs: durationMs(0),
  keepMs: durationMs(0),
}

export interface FillRules extends WindowRules {
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

export const FILL_OPTIONS: typeof WINDOWS & {
  readonly jitter: Reader<number>
  readonly leaseMs: Reader<number>
  readonly softTimeoutMs: Reader<number | undefined>
} = {
  ...WINDOWS,
  jitter: number(0.1, { min: 0, max: 0.5, unit: 'the lifetime', fraction: true }),
  leaseMs: durationMs(5_000, 100),
  softTimeoutMs: durationMs(undefined, 1),
}

/** The checked options. */
export type FillConfig = ReadBy<typeof FILL_OPTIONS>
