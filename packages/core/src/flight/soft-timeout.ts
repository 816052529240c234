// The option `softTimeoutMs`: if a fill or a wait takes longer, waiters and new requests are served
// the previous entry. The fill goes on in the background.

import { type HeldEntry, mayServeOnError } from '../entry/entry.ts'
import { isConfirmed, stillValid, validCopy } from '../l1/validity.ts'
import type { Flight, Previous } from './flight.ts'
import type { Caller, LeasedFill, Resolution } from './resolution.ts'
import type { Runtime } from './runtime.ts'

/** The previous entry from the reply of a lookup. */
export function previousFrom(rt: Runtime, { previous, since }: LeasedFill): Previous | undefined {
  return previous && { held: previous, since: rt.clock.now(), sequence: since }
}

/** The previous entry from L1. */
export function previousInL1(rt: Runtime, key: string): Previous | undefined {
  const item = rt.l1.get(key)
  if (item?.type !== 'copy') return undefined
  const held = validCopy(rt, item)
  return held && { held, since: item.begunAt, sequence: rt.l1.sequence() }
}

/** Waits for `work`. After softTimeoutMs, waiters that accept the previous entry are served it. */
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
 * Whether the origin runs in the background, so that the first waiter waits instead of leading.
 * This is so if `softTimeoutMs` is set and that waiter accepts the previous entry. It is then
 * served the entry when the run takes too long, which a leader could not be.
 */
export function firstWaiterStays(
  { policy, waiters }: Flight,
  previous: HeldEntry | undefined,
): boolean {
  if (policy.softTimeoutMs === undefined || previous === undefined) return false
  return waiters.first()?.caller.acceptsStale?.(previous) ?? false
}

/** Serves the previous entry to the waiters that accept it. */
export function serveLate(rt: Runtime, flight: Flight): void {
  flight.waiters.settleEach(({ caller }) => lateResolution(rt, flight, caller))
}

/**
 * The previous entry for this caller, if the fill or wait takes too long and the caller accepts the
 * entry.
 */
export function lateResolution(
  rt: Runtime,
  flight: Flight,
  caller: Caller,
): Resolution | undefined {
  const { key, late: why, previous } = flight
  if (why === undefined || previous === undefined || !isConfirmed(rt, previous.since)) {
    return undefined
  }
  const held = stillValid(rt, key, previous.sequence, previous.held)
  if (
    held === undefined ||
    !mayServeOnError(held, rt.clock.now()) ||
    !caller.acceptsStale?.(held)
  ) {
    return undefined
  }
  rt.events.emit({ type: 'stale.served', key, why })
  return { type: 'late', previous: held, why }
}
