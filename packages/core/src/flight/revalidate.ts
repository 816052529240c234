// Side path: everybody gets the stale answer now. The one caller in the fleet that was given the lease
// refreshes: behind its own answer, or in the foreground while its client waits.

import type { HeldEntry } from '../entry/entry.ts'
import type { Grant } from '../ports/store.ts'
import { fillAndCommit } from './fill.ts'
import type { Flight } from './flight.ts'
import type { Caller, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { mayBeLate } from './soft-timeout.ts'

export interface StaleFound {
  readonly held: HeldEntry
  readonly grant: Grant | undefined
  readonly since: number
}

export async function answerStale(
  rt: Runtime,
  flight: Flight,
  { held, grant, since }: StaleFound,
  refresher: Caller | undefined,
): Promise<Shared> {
  const foreground = flight.policy.revalidate === 'foreground' && grant !== undefined
  const kept = foreground && mayBeLate(flight, held) ? flight.first() : undefined
  const leader = foreground && kept === undefined ? flight.takeLeader() : undefined
  const caller = leader?.caller ?? refresher ?? flight.first()?.caller
  flight.copy = held
  const stale: Resolution = { type: 'hit', held, stale: true, from: 'l2' }
  for (const waiter of flight.waiters) {
    if (waiter === kept) continue
    rt.events.hit(flight.key, 'l2', true)
    flight.release(waiter, stale)
  }
  if (grant === undefined || caller === undefined) return stale
  const shared = await fillAndCommit(
    rt,
    flight,
    { grant, since, previous: held },
    {
      caller,
      behind: leader === undefined,
      onOwnEnd: (result) => leader?.settle({ type: 'led', result }),
    },
  )
  if (shared !== 'again' && shared.type !== 'hit') quiet(rt, flight.key)
  return shared
}

/** A refresh that failed at once must not be started again by each request that comes. */
export function quiet(rt: Runtime, key: string): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = rt.clock.now() + rt.failureBackoffMs
}
