// Hit-for-miss, for a key whose last response could not be shared. Its requests run the
// handler in parallel. One of these runs holds the lease. If its response is storable, the commit
// ends the hit-for-miss state.

import { newMarker } from '../l1/l1.ts'
import { LEASE_INTERVAL_MS } from './commit.ts'
import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import type { FoundAs } from './lookup-or-lease.ts'
import { releaseUnusedLease } from './release-lease.ts'
import type { Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'

export const HIT_FOR_MISS: Resolution = { type: 'pass', reason: 'hit-for-miss' }

export async function runHitForMiss(
  rt: Runtime,
  flight: Flight,
  { grant, forMs, since }: FoundAs<'pass'>,
): Promise<Shared> {
  const { key } = flight
  const delayMs = grant === undefined ? LEASE_INTERVAL_MS : 0
  rt.l1.put(key, newMarker(rt.clock.now(), forMs, delayMs), since)
  // If a request leads, the handler does not see its conditions and its range, and cannot send a
  // 304 or 206. Here the response is probably not storable, so hiding them would gain nothing. So a
  // request with such fields does not lead.
  const leader = grant && flight.waiters.takeLeader((caller) => !caller.hasConditionOrRange?.())
  flight.waiters.settleAll(HIT_FOR_MISS)
  if (grant === undefined) return HIT_FOR_MISS
  if (leader === undefined) {
    void releaseUnusedLease(rt, flight, grant)
    return HIT_FOR_MISS
  }
  return fillAndCommit(
    rt,
    flight,
    { grant, since, previous: undefined, reason: 'hit-for-miss' },
    { caller: leader.caller, leader },
  )
}

/**
 * The store is unavailable, so no response can be stored for the fleet. This process asks for the
 * lease again after the back-off.
 */
export function hitForMissWithoutStore(rt: Runtime, key: string): Resolution {
  const item = rt.l1.get(key)
  if (item?.type === 'marker') item.nextLookupAt = rt.clock.now() + rt.failureBackoffMs
  return HIT_FOR_MISS
}
