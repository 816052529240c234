// Whether a copy in memory may be served: not if it was purged, or if a purge of it may have been
// missed.

import type { HeldEntry } from '../entry/entry.ts'
import type { Runtime } from '../flight/runtime.ts'
import { CONFIRMED_FOR_MS } from '../ports/store.ts'
import type { L1Hold } from './l1.ts'

/**
 * Whether an entry whose fill began at `since` may be used now. Either `since` is less than
 * CONFIRMED_FOR_MS ago, or the store's last confirmation is. So no copy is served for longer than
 * that after a purge, whatever message is lost.
 */
export function isConfirmed(rt: Runtime, since: number, now: number = rt.clock.now()): boolean {
  return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS
}

/** The entry of an L1 slot as the purges leave it; undefined if it cannot be served. */
export function goodCopy(
  rt: Runtime,
  slot: L1Hold,
  now: number = rt.clock.now(),
): HeldEntry | undefined {
  if (!isConfirmed(rt, slot.begunAt, now)) return undefined
  if (slot.judged === rt.marks.version) return slot.held
  const held = afterPurges(rt, slot.held)
  if (held === undefined) return undefined
  slot.held = held
  slot.judged = rt.marks.version
  return held
}

/** A spare as the purges leave it, and only while it is certain that no purge was missed. */
export function trusted(rt: Runtime, held: HeldEntry): HeldEntry | undefined {
  return isConfirmed(rt, Number.NEGATIVE_INFINITY) ? afterPurges(rt, held) : undefined
}

/**
 * The entry that was read before a fill, as the purges since then leave it. `since` is the sequence
 * of L1 when it was read: a purge by key leaves no mark.
 */
export function leftOf(
  rt: Runtime,
  key: string,
  since: number,
  previous: HeldEntry | undefined,
): HeldEntry | undefined {
  if (previous === undefined || rt.l1.wasPurgedSince(key, since)) return undefined
  return afterPurges(rt, previous)
}

/**
 * The entry as the known purges by subject leave it: unchanged, stale since a purge, or undefined.
 */
export function afterPurges(rt: Runtime, held: HeldEntry): HeldEntry | undefined {
  const verdict = rt.marks.judge(held.entry.made)
  if (verdict === 'void') return undefined
  return verdict === 'valid' ? held : staleSince(held, verdict)
}

/** Moves every window of the entry to begin at `at`. */
function staleSince(held: HeldEntry, at: number): HeldEntry {
  const earlierMs = held.staleAt - at
  if (earlierMs <= 0) return held
  return {
    ...held,
    staleAt: at,
    revalidateUntil: held.revalidateUntil - earlierMs,
    errorUntil: held.errorUntil - earlierMs,
    keepUntil: held.keepUntil - earlierMs,
  }
}
