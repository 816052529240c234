// Refreshes: an entry is served at once, and one process of the fleet refreshes it in the
// background. The entry is stale, or it is fresh and was selected for a random early refresh.

import { startsEarlyRefresh } from '../entry/early-refresh.ts'
import type { HeldEntry } from '../entry/entry.ts'
import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import type { FoundAs } from './lookup-or-lease.ts'
import type { Policy } from './policy.ts'
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

/**
 * If another process has the lease: shortest pause of this process before its next early refresh.
 */
const LEAST_DELAY_MS = 100

/**
 * Limit of the fill duration that the random choice uses, as a fraction of the lifetime. Without
 * it, one slow fill could make early refreshes likely during most of the lifetime.
 */
const MAX_FRACTION_OF_LIFETIME = 0.05

/** Decides at random whether this hit on a fresh entry starts an early refresh. */
export function startsRefresh(rt: Runtime, policy: Policy, held: HeldEntry, now: number): boolean {
  const longestMs = (held.staleAt - held.bornAt) * MAX_FRACTION_OF_LIFETIME
  const tookMs = Math.min(held.entry.provenance.tookMs, longestMs)
  return startsEarlyRefresh(held.staleAt - now, tookMs, policy.earlyRefresh, rt.random)
}

/** Refreshes an entry that the lookup found still fresh. `early` is the copy of this process. */
export async function refreshEarly(
  rt: Runtime,
  flight: Flight,
  { early, held, grant, since }: FoundAs<'fresh'> & { readonly early: HeldEntry },
  caller: Caller | undefined,
): Promise<Shared> {
  const { key } = flight
  const fresh: Resolution = { type: 'hit', held, stale: false, from: 'l2' }
  // Requests that joined during the lookup get the fresh entry.
  flight.waiters.settleAll(fresh)
  if (grant === undefined || caller === undefined) {
    if (grant !== undefined) void releaseUnusedLease(rt, flight, grant)
    delayEarlyRefresh(rt, early, key, Math.max(held.entry.provenance.tookMs, LEAST_DELAY_MS))
    return fresh
  }
  // Another process has refreshed the entry already. The lookup has put the new entry into L1.
  if (held.fence !== early.fence) {
    void releaseUnusedLease(rt, flight, grant)
    return fresh
  }
  const leased = { grant, since, previous: held, reason: 'early' } as const
  const shared = await fillAndCommit(rt, flight, leased, {
    caller,
    leader: undefined,
    servedMeanwhile: held,
  })
  if (shared === 'again' || shared.type !== 'hit')
    delayEarlyRefresh(rt, early, key, rt.failureBackoffMs)
  return shared
}

/** Makes this process start no early refresh of this copy for `forMs`. */
export function delayEarlyRefresh(
  rt: Runtime,
  { fence }: HeldEntry,
  key: string,
  forMs: number,
): void {
  const item = rt.l1.get(key)
  if (item?.type === 'copy' && item.held.fence === fence)
    item.nextEarlyRefreshAt = rt.clock.now() + forMs
}
