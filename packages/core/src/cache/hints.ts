// What the store tells between replies: wake-ups, purges, and that something may have been missed. Hints
// only; each of them makes somebody look again.

import { groupOf } from '../ports/key.ts'
import type { Flight } from './flight.ts'
import type { Runtime } from './runtime.ts'

export function onWake(rt: Runtime, key: string): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = 0
  const flight = rt.flights.get(key)
  if (flight === undefined) return
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
  flight.wake(why)
  if (flight.filling) rt.flights.delete(flight.key)
}

/** Purges and wake-ups may have been missed: forget L1, and let everybody who waits look again. */
export function onGap(rt: Runtime): void {
  rt.l1.flush()
  rt.events.emit({ type: 'gap', key: '' })
  for (const flight of rt.flights.values()) lookAgain(rt, flight, 'gap')
}

/** No wake-up will come. Whoever waits asks again, finds the store away, and goes on without it. */
export function onLostStore(rt: Runtime): void {
  for (const flight of rt.flights.values()) {
    flight.recheck = true
    flight.wake('lost')
  }
}
