// Side path: what is awaited is late, and there is something stale that may stand in for it. Those who wait, and who come, are
// answered with that; what is late goes on behind them.

import { type HeldEntry, mayCover } from '../entry/entry.ts'
import type { Flight, Spare } from './flight.ts'
import type { Caller, Late, Resolution, Runtime } from './runtime.ts'
import { afterPurges, goodCopy, isConfirmed } from './trust.ts'

/** What the store has just answered with. */
export function spareFrom(rt: Runtime, held: HeldEntry | undefined): Spare | undefined {
  return held && { held, since: rt.clock.now() }
}

/** What this process has. */
export function spareInMemory(rt: Runtime, key: string): Spare | undefined {
  const slot = rt.l1.get(key)
  if (slot?.type !== 'hold') return undefined
  const held = goodCopy(rt, slot)
  return held && { held, since: slot.begunAt }
}

/** Waits for `work`; after softTimeoutMs nobody else does who takes the spare. */
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
 * Whether the first who waits here may have to be answered with this instead: then it does not run the origin for its own answer, which
 * could not be another's any more, but behind it.
 */
export function mayBeLate({ policy, waiters }: Flight, held: HeldEntry | undefined): boolean {
  if (policy.softTimeoutMs === undefined || held === undefined) return false
  const [first] = waiters
  return first?.caller.takesStale?.(held) ?? false
}

/** From now on, until what is late comes. */
export function standIn(rt: Runtime, flight: Flight, why: Late): void {
  flight.late = why
  for (const waiter of flight.waiters) {
    const resolution = standInFor(rt, flight, waiter.caller)
    if (resolution !== undefined) flight.release(waiter, resolution)
  }
}

/** What this one is answered with at once, if something is late here and it takes what there is. */
export function standInFor(rt: Runtime, flight: Flight, caller: Caller): Resolution | undefined {
  const { key, late, spare } = flight
  if (late === undefined || spare === undefined || !isConfirmed(rt, spare.since)) return undefined
  const held = afterPurges(rt, spare.held)
  if (held === undefined || !mayCover(held, rt.clock.now()) || !caller.takesStale?.(held)) {
    return undefined
  }
  rt.events.emit({ type: 'stood-in', key, why: late })
  return { type: 'stand-in', held, why: late }
}
