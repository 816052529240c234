// Side paths: an entry is served at once, and one process of the fleet refreshes it. The entry is stale, or
// fresh and due for an early refresh.

import { drawsEarly } from '../entry/early-refresh.ts'
import type { HeldEntry } from '../entry/entry.ts'
import { quiet } from './commit.ts'
import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import { giveUpLease } from './give-back.ts'
import type { FoundAs } from './lookup-or-lease.ts'
import type { Policy } from './policy.ts'
import type { Caller, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { staysWaiting } from './soft-timeout.ts'

export async function serveStale(
  rt: Runtime,
  flight: Flight,
  { held, grant, since }: FoundAs<'stale'>,
  refresher: Caller | undefined,
): Promise<Shared> {
  const foreground = flight.policy.revalidate === 'foreground' && grant !== undefined
  const kept = foreground && staysWaiting(flight, held) ? flight.waiters.first() : undefined
  const leader = foreground && kept === undefined ? flight.waiters.takeLeader() : undefined
  const caller = leader?.caller ?? refresher ?? flight.waiters.first()?.caller
  const stale: Resolution = { type: 'hit', held, stale: true, from: 'l2' }
  flight.waiters.settleEach(rt, (waiter) => (waiter === kept ? undefined : stale))
  if (grant === undefined) return stale
  if (caller === undefined) {
    // All waiters left during the lookup.
    void giveUpLease(rt, flight, grant)
    return stale
  }
  const shared = await fillAndCommit(
    rt,
    flight,
    { grant, since, previous: held },
    { caller, leader, serves: held },
  )
  if (shared !== 'again' && shared.type !== 'hit') quiet(rt, flight.key)
  return shared
}

/** While another process refreshes, it is not asked about more often than this. */
const LEAST_QUIET_MS = 100

/** Draws for one hit on a fresh entry. */
export function isDue(rt: Runtime, policy: Policy, held: HeldEntry, now: number): boolean {
  const { tookMs } = held.entry.made
  return drawsEarly(held.staleAt - now, tookMs, policy.earlyRefresh, rt.random)
}

/** A lookup for an early refresh found the entry still fresh. `early` is the copy that was due. */
export async function refreshEarly(
  rt: Runtime,
  flight: Flight,
  { early, held, grant, since }: FoundAs<'fresh'> & { readonly early: HeldEntry },
  caller: Caller | undefined,
): Promise<Shared> {
  const { key } = flight
  const fresh: Resolution = { type: 'hit', held, stale: false, from: 'l2' }
  // Requests that came while the store was asked.
  flight.waiters.settleAll(rt, fresh)
  if (grant === undefined || caller === undefined) {
    if (grant !== undefined) void giveUpLease(rt, flight, grant)
    holdOff(rt, early, key, Math.max(held.entry.made.tookMs, LEAST_QUIET_MS))
    return fresh
  }
  // Another process was faster: its new entry is in L1 now.
  if (held.fence !== early.fence) {
    void giveUpLease(rt, flight, grant)
    return fresh
  }
  const leased = { grant, since, previous: held }
  const shared = await fillAndCommit(rt, flight, leased, {
    caller,
    leader: undefined,
    serves: held,
  })
  if (shared === 'again' || shared.type !== 'hit') holdOff(rt, early, key, rt.failureBackoffMs)
  return shared
}

/** This process draws no early refresh of this copy for so long. */
export function holdOff(rt: Runtime, { fence }: HeldEntry, key: string, forMs: number): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold' && slot.held.fence === fence) slot.drawAgainAt = rt.clock.now() + forMs
}
