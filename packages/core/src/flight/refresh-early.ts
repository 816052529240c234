// Side path: everybody gets the fresh answer, and the caller who drew it refreshes behind, if the fleet gives it the lease.
// Whatever comes of that, until its end the entry is as good as it was.

import { drawsEarly } from '../entry/early-refresh.ts'
import type { HeldEntry } from '../entry/entry.ts'
import type { Grant } from '../ports/store.ts'
import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import { giveBack } from './give-back.ts'
import type { Policy } from './policy.ts'
import type { Caller, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'

/** While another process refreshes, it is not asked about more often than this. */
const LEAST_QUIET_MS = 100

/** Draws for one hit on a fresh entry. */
export function isDue(rt: Runtime, policy: Policy, held: HeldEntry, now: number): boolean {
  const { tookMs } = held.entry.made
  return drawsEarly(held.staleAt - now, tookMs, policy.earlyRefresh, rt.random)
}

/** What a look-up with `early` found still fresh. */
export interface EarlyFound {
  /** The copy that was drawn on. */
  readonly drawn: HeldEntry
  readonly held: HeldEntry
  readonly grant: Grant | undefined
  readonly since: number
}

export async function refreshEarly(
  rt: Runtime,
  flight: Flight,
  { drawn, held, grant, since }: EarlyFound,
  caller: Caller | undefined,
): Promise<Shared> {
  const { key } = flight
  const fresh: Resolution = { type: 'hit', held, stale: false, from: 'l2' }
  // Who came while the store was asked.
  for (let n = flight.waiters.size; n > 0; n--) rt.events.hit(key, 'l2', false)
  flight.settleAll(fresh)
  if (grant === undefined || caller === undefined) {
    holdOff(rt, drawn, key, Math.max(held.entry.made.tookMs, LEAST_QUIET_MS))
    return fresh
  }
  // Another was faster: what it made is in L1 now, and has its whole life before it.
  if (held.fence !== drawn.fence) {
    void giveBack(rt, grant)
    return fresh
  }
  flight.copy = held
  const leased = { grant, since, previous: held }
  const shared = await fillAndCommit(rt, flight, leased, {
    caller,
    behind: true,
    onOwnEnd: () => {},
  })
  if (shared === 'again' || shared.type !== 'hit') holdOff(rt, drawn, key, rt.failureBackoffMs)
  return shared
}

/** No more draws on this copy, in this process, for so long. */
export function holdOff(rt: Runtime, { fence }: HeldEntry, key: string, forMs: number): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold' && slot.held.fence === fence) slot.drawAgainAt = rt.clock.now() + forMs
}
