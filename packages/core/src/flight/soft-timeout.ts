// Side path: a fill or lookup is late, and a stale entry may be served instead. Waiters and new
// requests are served stale, and the late work goes on in the background.

import { type HeldEntry, mayCover } from '../entry/entry.ts'
import { goodCopy, isConfirmed, leftOf } from '../l1/validity.ts'
import type { Flight, Previous } from './flight.ts'
import type { Caller, LeasedFill, Resolution } from './resolution.ts'
import type { Runtime } from './runtime.ts'

/** The previous entry from a reply of the store. */
export function previousFrom(rt: Runtime, { previous, since }: LeasedFill): Previous | undefined {
  return previous && { held: previous, since: rt.clock.now(), sequence: since }
}

/** The previous entry in memory. */
export function previousInL1(rt: Runtime, key: string): Previous | undefined {
  const slot = rt.l1.get(key)
  if (slot?.type !== 'hold') return undefined
  const held = goodCopy(rt, slot)
  return held && { held, since: slot.begunAt, sequence: rt.l1.sequence() }
}

/** Waits for `work`. After softTimeoutMs, requests that accept the previous entry stop waiting. */
export function withSoftTimeout<T>(
  rt: Runtime,
  flight: Flight,
  previous: Previous | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const { softTimeoutMs } = flight.policy
  flight.keepPrevious(previous)
  if (softTimeoutMs === undefined || previous === undefined) return work()
  const timer = rt.clock.setTimer(softTimeoutMs, () => {
    flight.becomeLate('soft-timeout')
    serveLate(rt, flight)
  })
  return work().finally(() => timer.cancel())
}

/**
 * Whether the run of the first waiter is in the background, and the waiter goes on waiting. If it
 * accepts this entry, it may be served that before the run has a result.
 */
export function staysWaiting(
  { policy, waiters }: Flight,
  previous: HeldEntry | undefined,
): boolean {
  if (policy.softTimeoutMs === undefined || previous === undefined) return false
  return waiters.first()?.caller.takesStale?.(previous) ?? false
}

/** Serves the previous entry to the waiters that accept it. */
export function serveLate(rt: Runtime, flight: Flight): void {
  flight.waiters.settleEach(rt, ({ caller }) => lateResolution(rt, flight, caller))
}

/** The previous entry for this caller, if the work is late and the caller accepts it. */
export function lateResolution(
  rt: Runtime,
  flight: Flight,
  caller: Caller,
): Resolution | undefined {
  const { key, late: why, previous } = flight
  if (why === undefined || previous === undefined || !isConfirmed(rt, previous.since)) {
    return undefined
  }
  const held = leftOf(rt, key, previous.sequence, previous.held)
  if (held === undefined || !mayCover(held, rt.clock.now()) || !caller.takesStale?.(held)) {
    return undefined
  }
  rt.events.emit({ type: 'stale.served', key, why })
  return { type: 'late', previous: held, why }
}
