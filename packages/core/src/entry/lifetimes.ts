// Lifetimes as they are written, with jitter on both TTLs. Jitter is applied at write and bounded,
// so that keys filled together do not expire together, and readers never disagree.

import type { Lifetimes } from '../ports/store.ts'

/** The store keeps a record a little longer than it may be used, so that a reader never finds half of it. */
const MARGIN_MS = 1_000

export interface Windows {
  readonly freshMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
}

/** What is left of `lifetimes` after `elapsedMs`. Stale windows begin when freshness ends. */
export function remaining(lifetimes: Lifetimes, elapsedMs: number): Lifetimes {
  const overdueMs = Math.max(0, elapsedMs - lifetimes.freshMs)
  const left = (windowMs: number) => Math.max(0, windowMs - overdueMs)
  return {
    freshMs: Math.max(0, lifetimes.freshMs - elapsedMs),
    staleWhileRevalidateMs: left(lifetimes.staleWhileRevalidateMs),
    staleIfErrorMs: left(lifetimes.staleIfErrorMs),
    keepMs: left(lifetimes.keepMs),
    physicalMs: Math.max(1, lifetimes.physicalMs - elapsedMs),
  }
}

/** Neither fresh, nor in a window after that: of no use to anybody who comes later. */
export function isSpent(lifetimes: Lifetimes): boolean {
  const { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs } = lifetimes
  return Math.max(freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs) <= 0
}

/**
 * The logical TTL is shortened by up to `jitter` of itself (never lengthened: an explicit max-age is a
 * promise to others). The physical TTL covers the longest stale window and is lengthened by up to
 * `jitter` of the logical TTL, so that what was filled together is not dropped together either.
 */
export function spread(windows: Windows, jitter: number, random: () => number): Lifetimes {
  const freshMs = Math.max(1, Math.round(windows.freshMs * (1 - jitter * random())))
  const { staleWhileRevalidateMs, staleIfErrorMs, keepMs } = windows
  const longest = Math.max(staleWhileRevalidateMs, staleIfErrorMs, keepMs)
  const extra = Math.round(windows.freshMs * jitter * random())
  return {
    freshMs,
    staleWhileRevalidateMs,
    staleIfErrorMs,
    keepMs,
    physicalMs: freshMs + longest + MARGIN_MS + extra,
  }
}
