// Stage: hit-for-miss, a key whose last response could not be shared. Its requests do not wait for
// each other, but run the handler in parallel. One run at a time holds the lease: if its response
// may be stored, the commit ends the mark.

import { passSlot } from '../l1/l1.ts'
import { QUIET_MS } from './commit.ts'
import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import { giveUpLease } from './give-back.ts'
import type { FoundAs } from './lookup-or-lease.ts'
import type { Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'

export const HIT_FOR_MISS: Resolution = { type: 'pass', reason: 'hit-for-miss' }

export async function passAndTry(
  rt: Runtime,
  flight: Flight,
  { grant, forMs, since }: FoundAs<'pass'>,
): Promise<Shared> {
  const { key } = flight
  const quietMs = grant === undefined ? QUIET_MS : 0
  rt.l1.put(key, passSlot(rt.clock.now(), forMs, quietMs), since)
  // A fill hides conditions and ranges from the handler, so these clients could lose a 304 or 206
  // to a run whose response will hardly be stored. They do not lead.
  const leader = grant && flight.waiters.takeLeader((caller) => !caller.hidesFields?.())
  flight.waiters.settleAll(rt, HIT_FOR_MISS)
  if (grant === undefined) return HIT_FOR_MISS
  if (leader === undefined) {
    void giveUpLease(rt, flight, grant)
    return HIT_FOR_MISS
  }
  return fillAndCommit(
    rt,
    flight,
    { grant, since, previous: undefined },
    { caller: leader.caller, leader },
  )
}

/**
 * The store is away, so no run can be stored for the fleet. This process asks again after the
 * back-off.
 */
export function passWithoutStore(rt: Runtime, key: string): Resolution {
  const slot = rt.l1.get(key)
  if (slot?.type === 'pass') slot.askAgainAt = rt.clock.now() + rt.failureBackoffMs
  return HIT_FOR_MISS
}
