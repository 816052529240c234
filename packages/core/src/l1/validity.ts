// Whether a copy in memory may be served: not if it was purged, or if a purge of it may have been
// missed.

import { type HeldEntry, staleSince } from '../entry/entry.ts'
import type { Clock } from '../ports/clock.ts'
import { CONFIRMED_FOR_MS, type StampedeStore } from '../ports/store.ts'
import type { L1, L1Hold } from './l1.ts'
import type { PurgeMarks } from './purge-marks.ts'

/** What decides on the validity of a copy: the purges known here, and when the store last confirmed them. */
export interface Validity {
  readonly l1: L1
  readonly marks: PurgeMarks
  readonly store: Pick<StampedeStore, 'confirmedAt'>
  readonly clock: Pick<Clock, 'now'>
}

/**
 * Whether an entry whose fill began at `since` may be used now. Either `since` is less than
 * CONFIRMED_FOR_MS ago, or the store's last confirmation is. So no copy is served for longer than
 * that after a purge, whatever message is lost.
 */
export function isConfirmed(rt: Validity, since: number, now: number = rt.clock.now()): boolean {
  return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS
}

/** The entry of an L1 slot as the purges leave it; undefined if it cannot be served. */
export function goodCopy(
  rt: Validity,
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

/** The fresh entry in L1, unless the caller has to draw for an early refresh first. */
export function freshCopy(
  rt: Validity,
  key: string,
  { earlyRefresh }: { readonly earlyRefresh: number },
  now: number,
): HeldEntry | undefined {
  const slot = rt.l1.get(key)
  if (slot?.type !== 'hold') return undefined
  const held = goodCopy(rt, slot, now)
  if (held === undefined || now >= held.staleAt) return undefined
  return earlyRefresh > 0 && now >= slot.drawAgainAt ? undefined : held
}

/** A spare as the purges leave it, and only while it is certain that no purge was missed. */
export function trusted(rt: Validity, held: HeldEntry): HeldEntry | undefined {
  return isConfirmed(rt, Number.NEGATIVE_INFINITY) ? afterPurges(rt, held) : undefined
}

/**
 * The entry that was read before a fill, as the purges since then leave it. `since` is the sequence
 * of L1 when it was read: a purge by key leaves no mark.
 */
export function leftOf(
  rt: Validity,
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
export function afterPurges(rt: Validity, held: HeldEntry): HeldEntry | undefined {
  const verdict = rt.marks.judge(held.entry.made)
  if (verdict === 'void') return undefined
  return verdict === 'valid' ? held : staleSince(held, verdict)
}
