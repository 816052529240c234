// Side path: a fill or lookup is late, and a stale entry may stand in for it. Waiters and new
// requests are served stale, and the late work goes on in the background.

import { type HeldEntry, mayCover } from '../entry/entry.ts'
import { goodCopy, isConfirmed, leftOf } from '../l1/validity.ts'
import type { Flight, Spare } from './flight.ts'
import type { Caller, Late, LeasedFill, Resolution } from './resolution.ts'
import type { Runtime } from './runtime.ts'

/** The spare from a reply of the store. */
export function spareFrom(rt: Runtime, { previous, since }: LeasedFill): Spare | undefined {
  return previous && { held: previous, since: rt.clock.now(), sequence: since }
}

/** The spare from memory. */
export function spareInMemory(rt: Runtime, key: string): Spare | undefined {
  const slot = rt.l1.get(key)
  if (slot?.type !== 'hold') return undefined
  const held = goodCopy(rt, slot)
  return held && { held, since: slot.begunAt, sequence: rt.l1.sequence() }
}

/** Waits for `work`. After softTimeoutMs, requests that accept the spare stop waiting. */
export function inTime<T>(
  rt: Runtime,
  flight: Flight,
  spare: Spare | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const { softTimeoutMs } = flight.policy
  flight.spare = spare
  if (softTimeoutMs === undefined || spare === undefined) return work()
  const timer = rt.clock.setTimer(softTimeoutMs, () => standIn(rt, flight, 'soft-timeout'))
  return work().finally(() => {
    timer.cancel()
    flight.late = undefined
  })
}

/**
 * Whether the leader may be served this spare. Then its run is in the background from the start,
 * since its response may be sent before the run has a result.
 */
export function mayBeLate({ policy, waiters }: Flight, held: HeldEntry | undefined): boolean {
  if (policy.softTimeoutMs === undefined || held === undefined) return false
  const [first] = waiters
  return first?.caller.takesStale?.(held) ?? false
}

/** Serves the spare from now on, until the late work is done. */
export function standIn(rt: Runtime, flight: Flight, why: Late): void {
  flight.late = why
  for (const waiter of flight.waiters) {
    const resolution = standInFor(rt, flight, waiter.caller)
    if (resolution !== undefined) flight.release(waiter, resolution)
  }
}

/** The spare for this caller, if something is late and the caller accepts it. */
export function standInFor(rt: Runtime, flight: Flight, caller: Caller): Resolution | undefined {
  const { key, late, spare } = flight
  if (late === undefined || spare === undefined || !isConfirmed(rt, spare.since)) return undefined
  const held = leftOf(rt, key, spare.sequence, spare.held)
  if (held === undefined || !mayCover(held, rt.clock.now()) || !caller.takesStale?.(held)) {
    return undefined
  }
  rt.events.emit({ type: 'stood-in', key, why: late })
  return { type: 'stand-in', held, why: late }
}
