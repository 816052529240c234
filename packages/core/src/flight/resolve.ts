// Resolves one request or call: from L1, by joining the flight of its key, or by a lookup that may
// take the lease. After the lookup, this process fills and commits, or waits for another process.
// Each step after L1 happens once per key and process, for all waiters.

import { freshnessAt, type HeldEntry } from '../entry/entry.ts'
import type { L1Marker } from '../l1/l1.ts'
import { afterPurges, confirmedCopy, isConfirmed, validCopy } from '../l1/validity.ts'
import { lookupTracing } from '../tracing.ts'
import { chooseRunner, fillAndCommit } from './fill.ts'
import { fillUncoordinated } from './fill-uncoordinated.ts'
import { Flight } from './flight.ts'
import { HIT_FOR_MISS, hitForMissWithoutStore, runHitForMiss } from './hit-for-miss.ts'
import { type Found, lookupOrLease } from './lookup-or-lease.ts'
import type { Policy } from './policy.ts'
import { serveStale } from './refresh.ts'
import { releaseUnusedLease } from './release-lease.ts'
import type { Caller, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { mayLeadInstead, serveFailed } from './shared-failure.ts'
import { lateResolution, previousInL1 } from './soft-timeout.ts'
import { traceLookup } from './traced-lookup.ts'
import { waitForHolder } from './wait.ts'

/** Never rejects. If L1 has the result, it is returned without a promise. */
export function resolve(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | Promise<Resolution> {
  if (lookupTracing.hasSubscribers) return resolveTraced(rt, key, policy, caller)
  return fromL1(rt, key, policy, caller) ?? coalesce(rt, key, policy, caller)
}

/** A function of its own: without a subscriber, no closure is created. */
function resolveTraced(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | Promise<Resolution> {
  return traceLookup(
    key,
    caller,
    () => fromL1(rt, key, policy, caller) ?? coalesce(rt, key, policy, caller),
  )
}

/** The result from L1. Undefined if a lookup in the store is needed. May start a refresh. */
function fromL1(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | Promise<Resolution> | undefined {
  const item = rt.l1.get(key)
  if (item === undefined) return undefined
  const now = rt.clock.now()
  if (item.type === 'marker') {
    return now < item.until ? resolveHitForMiss(rt, key, policy, caller, item) : undefined
  }
  const held = validCopy(rt, item)
  if (held === undefined) return undefined
  switch (freshnessAt(held, now)) {
    case 'fresh':
      return { type: 'hit', held, stale: false, from: 'l1' }
    case 'stale': {
      const isDue = now >= item.nextLookupAt
      if ((isDue || mayLeadInstead(rt, caller, item.failedDigest)) && !rt.flights.has(key)) {
        const flight = new Flight(key, policy)
        if (!isDue) flight.setFailedDigest(item.failedDigest)
        if (policy.revalidate === 'foreground') return startWith(rt, flight, caller)
        start(rt, flight, caller)
      }
      return { type: 'hit', held, stale: true, from: 'l1' }
    }
    default:
      return undefined
  }
}

/** Hit-for-miss: one request at a time asks the store for the lease. All others run the handler. */
function resolveHitForMiss(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
  { nextLookupAt }: L1Marker,
): Resolution | Promise<Resolution> {
  if (rt.flights.has(key) || rt.clock.now() < nextLookupAt) return HIT_FOR_MISS
  if (caller.hasConditionOrRange?.()) return HIT_FOR_MISS
  return startWith(rt, new Flight(key, policy, { isHitForMiss: true }), caller)
}

/** Joins the flight of the key, or starts one. Never rejects. */
function coalesce(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | Promise<Resolution> {
  const present = joinableFlight(rt, key)
  if (present === undefined) return startWith(rt, new Flight(key, policy), caller)
  if (present.isHitForMiss) return HIT_FOR_MISS
  const previous = entryServedMeanwhile(rt, present)
  if (previous !== undefined) return { type: 'hit', held: previous, stale: true, from: 'l2' }
  const late = lateResolution(rt, present, caller)
  if (late !== undefined) return late
  rt.events.collapsed += 1
  return present.join(rt, caller, policy.waitMs)
}

/**
 * The flight of the key that new requests may join. They do not join a fill if purges may have been
 * missed since it began, because its response may be purged already.
 */
function joinableFlight(rt: Runtime, key: string): Flight | undefined {
  const present = rt.flights.get(key)
  return present?.isFilling && !isConfirmed(rt, present.fillingSince) ? undefined : present
}

/**
 * The entry that new requests are served while the flight refreshes it. Undefined if the stale
 * window has ended, or if the process may have missed a purge.
 */
function entryServedMeanwhile(rt: Runtime, { servedMeanwhile }: Flight): HeldEntry | undefined {
  const held = servedMeanwhile && confirmedCopy(rt, servedMeanwhile)
  return held && freshnessAt(held, rt.clock.now()) === 'stale' ? held : undefined
}

/** Starts a flight. With a `refresher`, the flight runs the origin even if no request waits. */
function start(rt: Runtime, flight: Flight, refresher: Caller | undefined): void {
  rt.flights.set(flight.key, flight)
  flight.startedAt = rt.clock.now()
  const landed = run(rt, flight, refresher)
  rt.waitUntil?.(landed)
}

function startWith(rt: Runtime, flight: Flight, caller: Caller): Promise<Resolution> {
  const resolution = flight.join(rt, caller, flight.policy.waitMs)
  start(rt, flight, undefined)
  return resolution
}

/**
 * Runs the flight until there is a result for the waiters, or no waiter is left.
 */
async function run(rt: Runtime, flight: Flight, refresher: Caller | undefined): Promise<void> {
  for (;;) {
    const shared = await lookUpAndAct(rt, flight, refresher)
    // A wake-up or purge since the lookup may make the reply outdated. The result of a fill is not
    // affected: a purge removes the flight from the map, so no later request gets that result.
    if (shared !== 'again' && !flight.isOutdated) {
      if (!isPurged(rt, shared)) return flight.land(rt, shared)
      if (flight.isFilling) flight.waiters.settleAtLimit(shared)
    }
    flight.lookUpAgain()
    rejoin(rt, flight)
    if (flight.waiters.size === 0) return flight.land(rt)
  }
}

/**
 * Whether a purge of one of its subjects, such as a tag, outdated the entry before the waiters got
 * it. Also after a soft purge, waiters look up again: one of them then refreshes the stale entry.
 */
function isPurged(rt: Runtime, shared: Resolution): boolean {
  return shared.type === 'hit' && afterPurges(rt, shared.held) !== shared.held
}

/** Sends a lookup and acts on the reply. */
async function lookUpAndAct(
  rt: Runtime,
  flight: Flight,
  refresher: Caller | undefined,
): Promise<Shared> {
  // The flight keeps the previous entry, because L1 may drop its copy. The store sends an entry
  // past its stale window only to the process that gets the lease. All other processes drop the
  // copy.
  flight.keepPrevious(previousInL1(rt, flight.key) ?? flight.previous)
  const { found, since } = await lookupOrLease(rt, flight, refresher)
  if (found === undefined) return withoutStore(rt, flight, refresher)
  if (flight.isOutdated) return discardLookup(rt, flight, found)
  const isWoken = flight.takeWakeUp()
  if (isWoken && (found.status === 'busy' || found.status === 'leased')) flight.countUnusableFill()
  switch (found.status) {
    case 'fresh':
      return { type: 'hit', held: found.held, stale: false, from: 'l2' }
    case 'stale':
      return serveStale(rt, flight, { ...found, since }, refresher)
    case 'leased':
      return fillUnderLease(rt, flight, found, since, refresher)
    case 'busy':
      if (flight.waiters.isFirstAtLimit) return fillUncoordinated(rt, flight, refresher)
      return waitForHolder(rt, flight, found.busyForMs)
    case 'pass':
      return runHitForMiss(rt, flight, { ...found, since })
    case 'failed':
      return serveFailed(rt, flight, found)
  }
}

/** Acts if the store is unavailable. */
function withoutStore(
  rt: Runtime,
  flight: Flight,
  refresher: Caller | undefined,
): Shared | Promise<Shared> {
  if (flight.isHitForMiss) return hitForMissWithoutStore(rt, flight.key)
  return fillUncoordinated(rt, flight, refresher)
}

/**
 * Discards a reply that a wake-up or purge made outdated. The waiters look up again with the same
 * token and keep the lease. Without waiters, the lease is released.
 */
function discardLookup(rt: Runtime, flight: Flight, found: Found): 'again' {
  const grant = 'grant' in found ? found.grant : undefined
  if (grant !== undefined && flight.waiters.size === 0) void releaseUnusedLease(rt, flight, grant)
  return 'again'
}

function fillUnderLease(
  rt: Runtime,
  flight: Flight,
  { grant, previous, isPurged }: Extract<Found, { status: 'leased' }>,
  since: number,
  refresher: Caller | undefined,
): Promise<Shared> {
  const runner = chooseRunner(flight, previous, refresher)
  const reason = previous !== undefined ? 'expired' : isPurged ? 'purged' : 'absent'
  const leased = { grant, since, previous, reason } as const
  if (runner !== undefined) return fillAndCommit(rt, flight, leased, runner)
  return releaseUnusedLease(rt, flight, grant).then(() => 'again')
}

/**
 * Moves the waiters to the newer flight of the key, if there is one after a purge or a long fill.
 */
function rejoin(rt: Runtime, flight: Flight): void {
  const present = rt.flights.get(flight.key)
  if (present === undefined) rt.flights.set(flight.key, flight)
  if (present === undefined || present === flight) return
  if (present.isHitForMiss) {
    flight.waiters.settleAll(HIT_FOR_MISS)
    return
  }
  flight.waiters.moveTo(rt, present.waiters)
  const previous = entryServedMeanwhile(rt, present)
  if (previous !== undefined) {
    present.waiters.settleAll({ type: 'hit', held: previous, stale: true, from: 'l2' })
  }
}
