// The journey, for a request or a call: L1, coalesce, lookup-or-lease, fill, commit, or wait. Everything
// after L1 happens once per key and process, however many ask.

import { freshnessAt, type HeldEntry } from '../entry/entry.ts'
import type { L1Pass } from '../l1/l1.ts'
import { afterPurges, goodCopy, isConfirmed, trusted } from '../l1/validity.ts'
import { newToken } from '../lease/token.ts'
import { joinLive } from '../stream/collapse.ts'
import { fillAndCommit } from './fill.ts'
import { fillUncoordinated } from './fill-uncoordinated.ts'
import { Flight } from './flight.ts'
import { giveBack } from './give-back.ts'
import { HIT_FOR_MISS, passAndTry, passWithoutStore } from './hit-for-miss.ts'
import { type Found, lookupOrLease } from './lookup-or-lease.ts'
import type { Policy } from './policy.ts'
import { holdOff, isDue, refreshEarly } from './refresh-early.ts'
import type { Caller, LeasedFill, Resolution, Shared } from './resolution.ts'
import { answerStale } from './revalidate.ts'
import type { Runtime } from './runtime.ts'
import { isRepeated, shareFailure } from './shared-failure.ts'
import { inTime, mayBeLate, spareInMemory, standInFor } from './soft-timeout.ts'
import { waitForHolder } from './wait.ts'

/** Answers at once when L1 can; never rejects. */
export function resolve(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | Promise<Resolution> {
  const slot = rt.l1.get(key)
  if (slot === undefined) return coalesce(rt, key, policy, caller)
  const now = rt.clock.now()
  if (slot.type === 'pass') {
    if (now < slot.until) return passOrTry(rt, key, policy, caller, slot)
    return coalesce(rt, key, policy, caller)
  }
  const held = goodCopy(rt, slot)
  if (held === undefined) return coalesce(rt, key, policy, caller)
  const freshness = freshnessAt(held, now)
  if (freshness === 'fresh') {
    if (policy.earlyRefresh > 0 && now >= slot.drawAgainAt && isDue(rt, policy, held, now)) {
      takeOffEarly(rt, key, policy, held, caller)
    }
    return hit(rt, key, held, false, 'l1')
  }
  if (freshness !== 'stale') return coalesce(rt, key, policy, caller)
  if (now < slot.askAgainAt || rt.flights.has(key)) return hit(rt, key, held, true, 'l1')
  if (policy.revalidate === 'foreground') return coalesce(rt, key, policy, caller)
  takeOff(rt, new Flight(key, policy), caller)
  return hit(rt, key, held, true, 'l1')
}

/** Hit-for-miss: one request at a time asks the store for the lease. The others run the handler. */
function passOrTry(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
  { askAgainAt }: L1Pass,
): Resolution | Promise<Resolution> {
  if (rt.flights.has(key) || rt.clock.now() < askAgainAt) return HIT_FOR_MISS
  if (caller.hidesFields?.()) return HIT_FOR_MISS
  const flight = new Flight(key, policy)
  flight.isPassing = true
  const resolution = flight.join(rt, caller, policy.waitMs)
  takeOff(rt, flight, undefined)
  return resolution
}

function coalesce(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | Promise<Resolution> {
  const present = joinable(rt, key)
  if (present?.isPassing) return HIT_FOR_MISS
  const copy = present && usableCopy(rt, present)
  if (copy !== undefined) return hit(rt, key, copy.held, copy.stale, 'l2')
  if (present !== undefined) {
    const standIn = standInFor(rt, present, caller)
    if (standIn !== undefined) return standIn
    rt.events.collapsed += 1
    return joinLive(rt, present, caller) ?? present.join(rt, caller, policy.waitMs)
  }
  const flight = new Flight(key, policy)
  const resolution = flight.join(rt, caller, policy.waitMs)
  takeOff(rt, flight, undefined)
  return resolution
}

/** A fill that began long ago, with purges unheard since, may bring what was purged: newcomers get one of their own. */
function joinable(rt: Runtime, key: string): Flight | undefined {
  const present = rt.flights.get(key)
  return present?.filling && !isConfirmed(rt, present.fillingSince) ? undefined : present
}

/** What is answered with while this flight refreshes behind: as a copy in memory that was not made here. */
function usableCopy(rt: Runtime, flight: Flight): { held: HeldEntry; stale: boolean } | undefined {
  const copy = flight.copy && trusted(rt, flight.copy)
  const freshness = copy && freshnessAt(copy, rt.clock.now())
  if (copy === undefined || (freshness !== 'fresh' && freshness !== 'stale')) return undefined
  return { held: copy, stale: freshness === 'stale' }
}

/** Starts the flight. With a `refresher`, nobody needs to be waiting. */
function takeOff(rt: Runtime, flight: Flight, refresher: Caller | undefined): void {
  rt.flights.set(flight.key, flight)
  void fly(rt, flight, refresher)
}

/** For one caller, who is answered with what is fresh; unless the key is being asked for, or filled, already. */
function takeOffEarly(
  rt: Runtime,
  key: string,
  policy: Policy,
  held: HeldEntry,
  caller: Caller,
): void {
  if (!rt.flights.has(key)) takeOff(rt, new Flight(key, policy, held), caller)
}

/** Ends by leaving the map and settling everybody in one step, so that nobody joins what is over. */
async function fly(rt: Runtime, flight: Flight, refresher: Caller | undefined): Promise<void> {
  for (;;) {
    const shared = await step(rt, flight, refresher)
    // A purge that came since the look-up: what it found is the past. What was filled is not handed to newcomers anyway.
    const isPast = (flight.recheck && !flight.filling) || isVoid(rt, shared)
    if (shared !== 'again' && !isPast) return flight.land(rt.flights, shared)
    if (flight.filling) flight.waitedInVain()
    flight.filling = false
    rejoin(rt, flight)
    if (flight.waiters.size === 0) return flight.leave(rt.flights)
  }
}

/** Purged after it was written, and before everybody was told. */
function isVoid(rt: Runtime, shared: Shared): boolean {
  if (shared === 'again' || shared.type !== 'hit') return false
  return afterPurges(rt, shared.held) === undefined
}

/** One look-up, and what follows from it. */
async function step(rt: Runtime, flight: Flight, refresher: Caller | undefined): Promise<Shared> {
  const drawn = flight.early
  // The store tells no second process what there is for errors, and then it leaves memory.
  flight.spare = spareInMemory(rt, flight.key) ?? flight.spare
  const lookup = await lookupOrLease(rt, flight)
  flight.early = undefined
  if (lookup === undefined) {
    if (drawn !== undefined) {
      holdOff(rt, drawn, flight.key, rt.failureBackoffMs)
      return 'again'
    }
    if (flight.isPassing) return passWithoutStore(rt, flight.key)
    return fillUncoordinated(rt, flight, refresher)
  }
  const { found, since } = lookup
  flight.isPassing = found.status === 'pass'
  if (flight.recheck) {
    // Whoever waits asks again under the same name, and has the lease still; nobody else would end it.
    const grant = 'grant' in found ? found.grant : undefined
    if (grant !== undefined && (drawn !== undefined || flight.waiters.size === 0)) {
      void giveBack(rt, grant)
      flight.token = newToken()
    }
    return 'again'
  }
  if (flight.woken && (found.status === 'busy' || found.status === 'leased')) flight.waitedInVain()
  flight.woken = false
  switch (found.status) {
    case 'leased':
      return fillUnderLease(rt, flight, { ...found, since }, refresher)
    case 'busy':
      if (flight.isLongAwaited) return fillUncoordinated(rt, flight, refresher)
      if (flight.waiters.size > 0) {
        const wait = () => waitForHolder(rt, flight, found.busyForMs)
        await inTime(rt, flight, flight.spare, wait)
      }
      return 'again'
    case 'stale':
      return answerStale(rt, flight, { ...found, since }, refresher)
    case 'fresh':
      if (drawn === undefined) return answerFresh(rt, flight, found.held)
      return refreshEarly(rt, flight, { ...found, drawn, since }, refresher)
    case 'pass':
      return passAndTry(rt, flight, { ...found, since })
    case 'failed':
      return answerFailed(rt, flight, found)
  }
}

/** Everybody gets it, and draws. */
function answerFresh(rt: Runtime, flight: Flight, held: HeldEntry): Resolution {
  const { key, policy } = flight
  const now = rt.clock.now()
  let due: Caller | undefined
  for (const { caller } of flight.waiters) {
    rt.events.hit(key, 'l2', false)
    if (policy.earlyRefresh > 0 && due === undefined && isDue(rt, policy, held, now)) due = caller
  }
  // In a flight of its own, which takes the place of this one.
  if (due !== undefined && rt.flights.get(key) === flight) {
    takeOff(rt, new Flight(key, policy, held), due)
  }
  return { type: 'hit', held, stale: false, from: 'l2' }
}

/** Answers with the failure that the store remembers, or with the stale entry. */
function answerFailed(
  rt: Runtime,
  flight: Flight,
  { failure, forMs, held }: Extract<Found, { status: 'failed' }>,
): Shared {
  const { key } = flight
  const isCovered = held !== undefined && freshnessAt(held, rt.clock.now()) === 'stale'
  const rest = { retryAfterMs: forMs, error: undefined, previous: held }
  const failed = { type: 'failed', failure, ...rest } as const
  const isForAll = isCovered || isRepeated(flight, failed)
  const shared = isForAll ? failed : shareFailure(flight, failed)
  if (shared === 'again') return shared
  rt.events.emit({ type: 'failure.shared', key, failure })
  return isCovered ? { type: 'hit', held, stale: true, from: 'l2' } : shared
}

async function fillUnderLease(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  refresher: Caller | undefined,
): Promise<Shared> {
  flight.dropGone()
  const leader = mayBeLate(flight, leased.previous) ? undefined : flight.takeLeader()
  const caller = leader?.caller ?? flight.first()?.caller ?? refresher
  if (caller === undefined) {
    await rt.store.fail(leased.grant, undefined, 0).catch(() => {})
    return 'again'
  }
  return fillAndCommit(rt, flight, leased, {
    caller,
    behind: leader === undefined,
    onOwnEnd: (result) => leader?.settle({ type: 'led', result }),
  })
}

/** Those who look again may find a newer flight of their key, since a purge or a fill that took long: then they move over. */
function rejoin(rt: Runtime, flight: Flight): void {
  const present = rt.flights.get(flight.key)
  if (present === undefined) rt.flights.set(flight.key, flight)
  if (present === undefined || present === flight) return
  if (present.isPassing) {
    flight.settleAll(HIT_FOR_MISS)
    return
  }
  flight.waitedInVain()
  flight.moveTo(present)
  const copy = usableCopy(rt, present)
  if (copy !== undefined) present.settleAll({ type: 'hit', ...copy, from: 'l2' })
}

function hit(
  rt: Runtime,
  key: string,
  held: HeldEntry,
  stale: boolean,
  tier: 'l1' | 'l2',
): Resolution {
  rt.events.hit(key, tier, stale)
  return { type: 'hit', held, stale, from: tier }
}
