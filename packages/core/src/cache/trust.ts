// Whether a copy in memory may be answered with: not if it was purged, and not if a purge of it may have been missed.

import type { HeldEntry } from '../entry/entry.ts'
import { CONFIRMED_FOR_MS } from '../ports/store.ts'
import type { L1Hold } from './l1.ts'
import type { Runtime } from './runtime.ts'

/**
 * Whether what was begun at `since` may be used now: either it is that young, or it is that short a time ago that the store
 * was certain to have told of every purge. So no copy outlives a purge by more than CONFIRMED_FOR_MS, whatever is lost.
 */
export function isConfirmed(rt: Runtime, since: number, now: number = rt.clock.now()): boolean {
  return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS
}

/** What may be answered with of what L1 has under a key, as far as purges go. */
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

/** What may stand in for something newer: as the purges leave it, and only while it is certain that none was missed. */
export function trusted(rt: Runtime, held: HeldEntry): HeldEntry | undefined {
  return isConfirmed(rt, Number.NEGATIVE_INFINITY) ? afterPurges(rt, held) : undefined
}

/** The entry as the purges that are known leave it: as it was, stale since then, or not at all. */
export function afterPurges(rt: Runtime, held: HeldEntry): HeldEntry | undefined {
  const verdict = rt.marks.judge(held.entry.made)
  if (verdict === 'void') return undefined
  return verdict === 'valid' ? held : staleSince(held, verdict)
}

/** Every window of it begins then. */
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
