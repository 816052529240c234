// Refreshes: a stale entry is served at once, and one process of the fleet refreshes it in the
// background.

import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import type { FoundAs } from './lookup-or-lease.ts'
import { releaseUnusedLease } from './release-lease.ts'
import type { Caller, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { firstWaiterStays } from './soft-timeout.ts'

export async function serveStale(
  rt: Runtime,
  flight: Flight,
  { held, grant, since }: FoundAs<'stale'>,
  refresher: Caller | undefined,
): Promise<Shared> {
  const foreground = flight.policy.revalidate === 'foreground' && grant !== undefined
  const staying = foreground && firstWaiterStays(flight, held) ? flight.waiters.first() : undefined
  const leader = foreground && staying === undefined ? flight.waiters.takeLeader() : undefined
  const caller = leader?.caller ?? refresher ?? flight.waiters.first()?.caller
  const stale: Resolution = { type: 'hit', held, stale: true, from: 'l2' }
  flight.waiters.settleEach((waiter) => (waiter === staying ? undefined : stale))
  if (grant === undefined) return stale
  if (caller === undefined) {
    // All waiters left during the lookup.
    void releaseUnusedLease(rt, flight, grant)
    return stale
  }
  return fillAndCommit(
    rt,
    flight,
    { grant, since, previous: held, reason: 'stale' },
    { caller, leader, servedMeanwhile: held },
  )
}
