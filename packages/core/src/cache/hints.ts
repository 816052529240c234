// What the store tells between replies: wake-ups, purges, extensions, and that something may have been missed.
// Hints only; each of them makes somebody look again.

import { holdFor } from '../entry/entry.ts'
import { withHead } from '../entry/frame.ts'
import { groupOf } from '../ports/key.ts'
import type { Extension, Mark, Position } from '../ports/store.ts'
import { ALL } from '../ports/subject.ts'
import type { Flight } from './flight.ts'
import { holdSlot } from './l1.ts'
import type { Runtime } from './runtime.ts'

export function onWake(rt: Runtime, key: string): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = 0
  const flight = rt.flights.get(key)
  if (flight === undefined) return
  flight.woken = true
  flight.recheck = true
  flight.wake('wake-up')
}

/**
 * Of a key and all its variants. A fill in flight goes on for those who asked before; whoever asks from now on
 * gets a new one.
 */
export function onPurge(rt: Runtime, group: string, soft: boolean): void {
  forget(rt, group)
  rt.events.emit({ type: 'purged', key: group, soft })
}

/** In this process alone: no copy is kept, and whoever waits asks again. */
export function forget(rt: Runtime, group: string): void {
  rt.l1.purge(group)
  for (const flight of rt.flights.values()) {
    if (flight.key === group || groupOf(flight.key) === group) lookAgain(rt, flight, 'wake-up')
  }
}

function lookAgain(rt: Runtime, flight: Flight, why: 'wake-up' | 'gap'): void {
  flight.recheck = true
  // A purge by key leaves no mark to judge it by.
  flight.spare = undefined
  flight.wake(why)
  if (flight.filling) rt.flights.delete(flight.key)
}

/**
 * Of everything under a subject. Copies are not searched for: each is judged when it is next asked for. Nor are fills in flight; what
 * they bring is void. Only where everything is, newcomers get a fill of their own at once.
 */
export function onMark(rt: Runtime, mark: Mark): void {
  const before = rt.marks.version
  rt.marks.add(mark, rt.clock.now() - mark.agoMs)
  if (rt.marks.version === before) return
  if (mark.subject === ALL)
    for (const flight of rt.flights.values()) lookAgain(rt, flight, 'wake-up')
  rt.events.emit({ type: 'purged', key: mark.subject, soft: mark.soft })
}

/** Another process found that what we hold is still so. */
export function onExtend(
  rt: Runtime,
  { key, fromFence, toFence, patch, lifetimes }: Extension,
): void {
  const slot = rt.l1.get(key)
  if (slot?.type !== 'hold' || slot.held.fence !== fromFence) return
  const entry = withHead(slot.held.entry, patch)
  if (entry === undefined) return
  const since = rt.l1.sequence()
  rt.l1.put(key, holdSlot(holdFor(entry, toFence, lifetimes, rt.clock.now())), since)
}

/** Purges may have been missed: no copy is kept, and what was made before `floor` is void. */
export function onForget(rt: Runtime, floor: Position): void {
  rt.marks.forgetBefore(floor)
  // A process that has just begun has nothing to forget.
  if (rt.l1.size.entries > 0 || rt.flights.size > 0) rt.events.emit({ type: 'gap', key: '' })
  rt.l1.flush()
  for (const flight of rt.flights.values()) lookAgain(rt, flight, 'gap')
}

/** Wake-ups may have been missed: everybody who waits looks again. */
export function onGap(rt: Runtime): void {
  for (const flight of rt.flights.values()) {
    flight.recheck = true
    flight.wake('gap')
  }
}

/** No wake-up will come. Whoever waits asks again, finds the store away, and goes on without it. */
export function onLostStore(rt: Runtime): void {
  for (const flight of rt.flights.values()) {
    flight.recheck = true
    flight.wake('lost')
  }
}
