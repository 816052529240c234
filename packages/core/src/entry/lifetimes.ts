// Lifetimes of a new entry, with jitter, so that keys filled together do not expire together. The
// jitter is applied once, when the entry is written, so that all processes agree.

import type { Lifetimes } from '../ports/store.ts'

/** The store keeps a record for this much longer than its entry may be used. */
const MARGIN_MS = 1_000

export interface Windows {
  readonly freshMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
}

/** The rest of `lifetimes` after `elapsedMs`. Stale windows begin when freshness ends. */
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

/**
 * Whether the entry is neither fresh nor in a stale window, so that no later request can use it.
 */
export function isSpent(lifetimes: Lifetimes): boolean {
  const { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs } = lifetimes
  return Math.max(freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs) <= 0
}

/**
 * Lifetimes with jitter. The logical TTL (freshness) is shortened by up to `jitter` of itself. It
 * is never lengthened, because caches between the client and this one rely on max-age. The physical
 * TTL (deletion) covers the longest stale window. It is lengthened by up to `jitter` of the logical
 * TTL, so that entries filled together are not deleted together.
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
