// Notifications from the store: wake-ups, purges and gaps. They are hints only; each
// makes a process look again.

import { groupOf } from '../ports/key.ts'
import type { Mark, Position } from '../ports/store.ts'
import { ALL, kindOf } from '../ports/subject.ts'
import type { Flight } from './flight.ts'
import type { Runtime } from './runtime.ts'

export function onWake(rt: Runtime, key: string): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = 0
  const flight = rt.flights.get(key)
  if (flight === undefined) return
  flight.wakeUp()
}

/**
 * A purge of a key and all its variants. A fill in flight continues for the requests that wait for
 * it. Later requests get a new fill.
 */
export function onPurge(rt: Runtime, group: string, soft: boolean): void {
  forget(rt, group, soft)
  rt.events.emit({ type: 'entry.purged', key: group, by: 'key', soft })
}

/**
 * Purges a key in the store, which tells every process. If the store cannot be told, at least this
 * process forgets it.
 */
export async function purgeKey(rt: Runtime, key: string, soft: boolean): Promise<void> {
  try {
    await rt.store.purge(key, { soft })
  } catch (error) {
    onPurge(rt, key, soft)
    throw error
  }
}

/** Drops the copies of this process, and makes its waiters look again. */
export function forget(rt: Runtime, group: string, soft = false): void {
  rt.l1.purge(group, soft)
  for (const flight of rt.flights.values()) {
    if (flight.key === group || groupOf(flight.key) === group) lookAgain(rt, flight, 'wake-up')
  }
}

function lookAgain(rt: Runtime, flight: Flight, why: 'wake-up' | 'gap'): void {
  flight.forget(why)
  if (flight.isFilling) rt.flights.delete(flight.key)
}

/**
 * A purge by subject. Copies are not searched: each is judged when it is next looked up. Fills in
 * flight continue, and their results are void. Only after a purge of everything, later requests get
 * a new fill at once.
 */
export function onMark(rt: Runtime, mark: Mark): void {
  const before = rt.marks.version
  rt.marks.add(mark, rt.clock.now() - mark.agoMs)
  if (rt.marks.version === before) return
  if (mark.subject === ALL)
    for (const flight of rt.flights.values()) lookAgain(rt, flight, 'wake-up')
  rt.events.emit({
    type: 'entry.purged',
    ...{ key: mark.subject, by: kindOf(mark.subject), soft: mark.soft },
  })
}

/**
 * Purges may have been missed: all copies are dropped, and entries made before `floor` are void.
 */
export function onForget(rt: Runtime, floor: Position): void {
  rt.marks.forgetBefore(floor)
  // A process without copies or flights has nothing to lose, so it reports no gap.
  if (rt.l1.size.entries > 0 || rt.flights.size > 0) rt.events.emit({ type: 'bus.gap', key: '' })
  rt.l1.flush()
  for (const flight of rt.flights.values()) lookAgain(rt, flight, 'gap')
}

/** Wake-ups may have been missed: all waiters look again. */
export function onGap(rt: Runtime): void {
  for (const flight of rt.flights.values()) flight.notice('gap')
}

/** No wake-up will come. Waiters look up, find the store away, and continue without it. */
export function onLostStore(rt: Runtime): void {
  for (const flight of rt.flights.values()) flight.notice('lost')
}
