// Purges of a key, and reactions to messages of the store: wake-ups, purges, and gaps in which
// messages may have been lost. Lost or repeated messages do no harm, because each one only makes
// the process look up again or drop copies.

import { groupOf, isDataKey } from '../ports/key.ts'
import type { Mark, Position } from '../ports/store.ts'
import { ALL, kindOf } from '../ports/subject.ts'
import type { Runtime } from '../runtime.ts'
import type { Flight } from './flight.ts'

export function onWake(rt: Runtime, key: string): void {
  const item = rt.l1.get(key)
  if (item?.type === 'copy') item.nextLookupAt = 0
  const flight = rt.flights.get(key)
  if (flight === undefined) return
  flight.wakeUp()
}

/**
 * Handles a purge of a key and all its variants. The commit of a fill in progress is refused, so
 * its waiters look up again. Later requests get a new fill.
 */
export function onPurge(rt: Runtime, varyGroup: string, soft: boolean): void {
  forget(rt, varyGroup, soft)
  rt.events.emit({ type: 'entry.purged', key: varyGroup, by: 'key', soft })
}

/**
 * Purges a key in the store, which notifies every process. If the store is unavailable, at least
 * this process drops its copies.
 */
export async function purgeKey(rt: Runtime, key: string, soft: boolean): Promise<void> {
  try {
    await rt.store.purge(key, { soft })
  } catch (error) {
    onPurge(rt, key, soft)
    throw error
  }
}

/** Drops the copies of a vary group in this process, and makes its waiters look up again. */
export function forget(rt: Runtime, varyGroup: string, soft = false): void {
  rt.l1.purge(varyGroup, soft)
  const own = rt.flights.get(varyGroup)
  if (own !== undefined) invalidateFlight(rt, own, 'wake-up')
  // Values have no variants. A call for many keys may purge thousands of them, and fill as many.
  if (isDataKey(varyGroup)) return
  for (const flight of rt.flights.values()) {
    if (flight !== own && groupOf(flight.key) === varyGroup) invalidateFlight(rt, flight, 'wake-up')
  }
}

function invalidateFlight(rt: Runtime, flight: Flight, why: 'wake-up' | 'gap'): void {
  if (flight.fillingSince !== undefined) rt.flights.delete(flight.key)
  flight.onPurge(why)
}

/**
 * Handles a purge by subject (tag, path, route, everything). Copies are not searched. Each copy is
 * checked at its next lookup. Fills in progress continue, and the purge makes their entries
 * outdated. After a purge of everything, later requests get a new fill at once.
 */
export function onMark(rt: Runtime, mark: Mark): void {
  const before = rt.marks.version
  rt.marks.add(mark, rt.clock.now() - mark.agoMs)
  if (rt.marks.version === before) return
  if (mark.subject === ALL)
    for (const flight of rt.flights.values()) invalidateFlight(rt, flight, 'wake-up')
  rt.events.emit({
    type: 'entry.purged',
    ...{ key: mark.subject, by: kindOf(mark.subject), soft: mark.soft },
  })
}

/**
 * Handles a gap in which purges may have been missed. All copies are dropped. An entry is outdated
 * if its fill began before `oldestKnown`.
 */
export function onForget(rt: Runtime, oldestKnown: Position): void {
  rt.marks.forgetBefore(oldestKnown)
  // A process without copies or flights has nothing to lose, so it reports no gap.
  if (rt.l1.size.entries > 0 || rt.flights.size > 0) rt.events.emit({ type: 'bus.gap', key: '' })
  rt.l1.flush()
  for (const flight of rt.flights.values()) invalidateFlight(rt, flight, 'gap')
}

/** Handles a gap in which wake-ups may have been missed: all waiters look up again. */
export function onGap(rt: Runtime): void {
  for (const flight of rt.flights.values()) flight.interrupt('gap')
}

/**
 * Handles the loss of the store, which sends no more wake-ups. All waiters look up again. That
 * lookup fails, and they continue without the store.
 */
export function onLostStore(rt: Runtime): void {
  for (const flight of rt.flights.values()) flight.interrupt('lost')
}
