// Checks of copies before they are served. A copy is not served if it was purged, or if this
// process may have missed a purge of it.

import { type HeldEntry, staleFrom } from '../entry/entry.ts'
import type { Clock } from '../ports/clock.ts'
import { CONFIRMED_FOR_MS, type StampedeStore } from '../ports/store.ts'
import type { L1, L1Copy } from './l1.ts'
import type { PurgeMarks } from './purge-marks.ts'

/** The parts of the runtime that these checks need. */
export interface Validity {
  readonly l1: L1
  readonly marks: PurgeMarks
  readonly store: Pick<StampedeStore, 'confirmedAt'>
  readonly clock: Pick<Clock, 'now'>
}

/**
 * Whether an entry whose fill began at `since` may be used now: `since` or the last confirmation by
 * the store is less than CONFIRMED_FOR_MS ago. So no copy is served for longer than that after a
 * purge, even if messages are lost.
 */
export function isConfirmed(rt: Validity, since: number, now: number = rt.clock.now()): boolean {
  return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS
}

/** The entry of a copy, stale if a soft purge made it so. Undefined if it may not be served. */
export function validCopy(
  rt: Validity,
  copy: L1Copy,
  now: number = rt.clock.now(),
): HeldEntry | undefined {
  if (!isConfirmed(rt, copy.begunAt, now)) return undefined
  if (copy.validAtVersion === rt.marks.version) return copy.held
  const held = afterPurges(rt, copy.held)
  if (held === undefined) return undefined
  copy.held = held
  copy.validAtVersion = rt.marks.version
  return held
}

/** The fresh entry in L1. Undefined if there is none. */
export function freshCopy(rt: Validity, key: string, now: number): HeldEntry | undefined {
  const copy = rt.l1.get(key)
  if (copy?.type !== 'copy') return undefined
  const held = validCopy(rt, copy, now)
  return held !== undefined && now < held.staleAt ? held : undefined
}

/**
 * An older entry to serve in place of a failure, stale if a soft purge made it so. Undefined if it
 * was purged, or if this process may have missed a purge.
 */
export function confirmedCopy(rt: Validity, held: HeldEntry): HeldEntry | undefined {
  return isConfirmed(rt, Number.NEGATIVE_INFINITY) ? afterPurges(rt, held) : undefined
}

/**
 * The older entry of a fill, if it was not purged since the lookup of the fill. `since` is the
 * number of L1's last purge before that lookup. L1 has the purges by key, and PurgeMarks those by
 * subject.
 */
export function stillValid(
  rt: Validity,
  key: string,
  since: number,
  previous: HeldEntry | undefined,
): HeldEntry | undefined {
  if (previous === undefined || rt.l1.wasPurgedSince(key, since)) return undefined
  return afterPurges(rt, previous)
}

/**
 * Applies the known purges of its subjects to an entry. Returns the entry unchanged, the entry as
 * stale, or undefined if it was purged.
 */
export function afterPurges(rt: Validity, held: HeldEntry): HeldEntry | undefined {
  const verdict = rt.marks.judge(held.entry.provenance)
  if (verdict === 'purged') return undefined
  return verdict === 'valid' ? held : staleFrom(held, verdict)
}
