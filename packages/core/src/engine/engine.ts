// Resolves one request or call: from L1, by joining the flight of its key, or by a lookup that may
// take the lease. After the lookup, this process fills and commits, or waits for another process.
// Each step after L1 happens once per key and process, for all waiters.
//
// A flight moves by calls: `step` sends a lookup, `act` acts on the reply, and `advance` lands the
// flight or takes the next step.

import { type L1Marker, newMarker } from '../l1/l1.ts'
import { afterPurges, confirmedCopy, isConfirmed, validCopy } from '../l1/purges.ts'
import { mayLeadInstead } from '../l1/refresh-delay.ts'
import { isDataKey } from '../ports/key.ts'
import type { Grant } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { traceLookup } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import { fill, fillWithoutLease, previousInL1 } from './fill.ts'
import { Flight } from './flight.ts'
import { lookUp, releaseUnused } from './lookup.ts'
import { LEASE_INTERVAL_MS } from './share.ts'
import type { Caller, Found, Lease, Policy, Resolution, Shared } from './types.ts'
import type { Waiter } from './waiters.ts'

const HIT_FOR_MISS: Resolution = { type: 'pass', reason: 'hit-for-miss' }

/**
 * Resolves a request or call: from L1, if possible. A hit on a stale entry may start a refresh.
 * Returns undefined if `caller.answer` gets the result instead. Without a store, it may have been
 * called already.
 */
export function find(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
): Resolution | undefined {
  if (lookupTracing.hasSubscribers && caller.endLookup === undefined) {
    return traceLookup(key, caller, () => find(rt, key, policy, caller))
  }
  const item = rt.l1.get(key)
  if (item === undefined) return join(rt, key, policy, caller)
  const now = rt.clock.now()
  if (item.type === 'marker') {
    if (now >= item.until || item.failure !== undefined) return join(rt, key, policy, caller)
    return hitForMiss(rt, key, policy, caller, item)
  }
  const held = validCopy(rt, item, now)
  if (held === undefined || now >= held.revalidateUntil) return join(rt, key, policy, caller)
  const stale = now >= held.staleAt
  if (stale && !rt.flights.has(key)) {
    const isDue = now >= item.nextLookupAt
    const digest = item.failedDigest
    if (isDue || (digest && mayLeadInstead(rt, caller.requestDigest?.(), digest))) {
      const inBackground = policy.revalidate === 'background'
      const flight = new KeyFlight(rt, key, policy, inBackground ? caller : undefined)
      if (!isDue) flight.failedDigest = digest
      if (!inBackground) return flight.begin(caller)
      flight.begin()
      // The caller gets the stale entry first: a handler may block the event loop at its start.
      const step = () => flight.step()
      if (caller.batch === undefined) queueMicrotask(step)
      else caller.batch.later(step)
    }
  }
  return { type: 'hit', held, stale, from: 'l1' }
}

/** Hit-for-miss: one request at a time asks the store for the lease. All others run the handler. */
function hitForMiss(
  rt: Runtime,
  key: string,
  policy: Policy,
  caller: Caller,
  { nextLookupAt }: L1Marker,
): Resolution | undefined {
  if (rt.flights.has(key) || rt.clock.now() < nextLookupAt) return HIT_FOR_MISS
  if (caller.hasConditionOrRange?.()) return HIT_FOR_MISS
  return new KeyFlight(rt, key, policy, undefined, true).begin(caller)
}

/** Joins the flight of the key, or starts one. */
function join(rt: Runtime, key: string, policy: Policy, caller: Caller): Resolution | undefined {
  const present = rt.flights.get(key)
  if (present === undefined || mayBePurged(rt, present)) {
    return new KeyFlight(rt, key, policy).begin(caller)
  }
  if (present.isHitForMiss) return HIT_FOR_MISS
  const served = servedMeanwhile(rt, present) ?? present.lateFor(caller)
  if (served !== undefined) return served
  rt.events.collapsed += 1
  present.join(caller, policy.waitMs)
  return undefined
}

/**
 * Whether purges may have been missed since the fill of the flight began. Its response may be
 * purged already, so new requests do not join it.
 */
function mayBePurged(rt: Runtime, { fillingSince }: Flight): boolean {
  return fillingSince !== undefined && !isConfirmed(rt, fillingSince)
}

/**
 * The entry that new requests are served while the flight refreshes it. Undefined if the stale
 * window has ended, or if the process may have missed a purge.
 */
function servedMeanwhile(rt: Runtime, flight: Flight): Resolution | undefined {
  const served = flight.servedMeanwhile
  const held = served && confirmedCopy(rt, served)
  const now = rt.clock.now()
  if (held === undefined || now >= held.revalidateUntil) return undefined
  return { type: 'hit', held, stale: now >= held.staleAt, from: 'l2' }
}

/**
 * Upper bound of the random time that is added to each wait. Without it, all processes that wait
 * for a dead holder would look up in the same millisecond.
 */
const SPREAD_MS = 40
/** Shortest wait. Without it, a store that replies `busy` for 0 ms would cause a busy loop. */
const LEAST_MS = 20

/** A flight with its steps. */
class KeyFlight extends Flight {
  declare protected readonly rt: Runtime

  /**
   * From now on, requests of its key join the flight. With a caller, which joins first, it sends
   * its lookup.
   */
  begin(caller?: Caller): undefined {
    if (caller !== undefined) this.join(caller, this.policy.waitMs)
    this.rt.flights.set(this.key, this)
    this.rt.waitUntil?.(this.landed())
    if (caller !== undefined) this.step()
  }

  /**
   * Sends a lookup. The flight keeps the previous entry, because L1 may drop its copy. The store
   * sends an entry past its stale window only to the process that gets the lease. All other
   * processes drop the copy.
   */
  step(): void {
    this.previous = previousInL1(this.rt, this.key) ?? this.previous
    lookUp(this.rt, this)
  }

  override advance(shared: Shared): void {
    const { flights } = this.rt
    // A wake-up or purge since the lookup may make the reply outdated. A purge of a key also
    // removes the flight from the map. A purge of a tag, path or route does not, so isPurged()
    // looks for it.
    if (shared !== 'again' && !this.isOutdated) {
      if (!this.isPurged(shared)) return this.land(flights, shared)
      if (this.fillingSince !== undefined) this.settleAtLimit(shared)
    }
    this.lookUpAgain()
    this.#rejoin()
    if (this.size === 0) return this.land(flights)
    this.step()
  }

  /**
   * Whether a purge of one of its subjects, such as a tag, outdated the entry before the waiters
   * got it. `since`: also a purge of its key after that. Also after a soft purge, waiters look up
   * again: one of them then refreshes the stale entry.
   */
  protected override isPurged(shared: Resolution, since?: number): boolean {
    const held = 'held' in shared ? shared.held : 'previous' in shared ? shared.previous : undefined
    if (held === undefined) return false
    const isKeyPurged = since !== undefined && this.rt.l1.isPurgedSince(this.key, since)
    return isKeyPurged || afterPurges(this.rt, held) !== held
  }

  /** The waiters go on as after a fill whose commit was refused. */
  protected override resume(waiters: readonly Waiter[], outdated: Resolution): void {
    const flight = new KeyFlight(this.rt, this.key, this.policy)
    this.rt.waitUntil?.(flight.landed())
    flight.takeIn(waiters)
    if (outdated.type === 'hit' && outdated.from === 'fill') flight.settleAtLimit(outdated)
    flight.countUnusableFill()
    flight.advance('again')
  }

  /**
   * Moves the waiters to the newer flight of the key, if there is one after a purge or a long fill.
   */
  #rejoin(): void {
    const { flights } = this.rt
    const present = flights.get(this.key)
    if (present === undefined) flights.set(this.key, this)
    if (present === undefined || present === this) return
    if (present.isHitForMiss) return this.settleAll(HIT_FOR_MISS)
    this.moveTo(present)
    const served = servedMeanwhile(this.rt, present)
    if (served !== undefined) present.settleAll(served)
  }

  override act(found: Found | undefined, since: number): void {
    if (found === undefined) return this.#withoutStore()
    if (this.isOutdated) return this.#discard(found)
    const isSkipped = found.status === 'pass' && isDataKey(this.key)
    const isWoken = this.endLookup(found.status === 'pass' && !isSkipped)
    if (isWoken && (found.status === 'busy' || found.status === 'leased')) this.countUnusableFill()
    switch (found.status) {
      case 'fresh':
        return this.advance({ type: 'hit', held: found.stored, stale: false, from: 'l2' })
      case 'stale':
        return this.#serveStale(found, since)
      case 'leased': {
        const { grant, stored: previous, isPurged } = found
        const reason = previous !== undefined ? 'expired' : isPurged ? 'purged' : 'absent'
        return this.#fillOrRelease({ grant, since, previous, reason })
      }
      case 'busy':
        if (this.isFirstAtLimit) return fillWithoutLease(this.rt, this)
        return this.#waitForHolder(found.busyForMs)
      case 'pass':
        return isSkipped ? this.#runAfterSkip(found, since) : this.#passAll(found, since)
      case 'failed':
        return this.#serveFailed(found)
    }
  }

  /**
   * The store is unavailable. A response of a hit-for-miss key cannot be stored for the fleet, so
   * this process asks for the lease again after the back-off.
   */
  #withoutStore(): void {
    const { rt } = this
    if (!this.isHitForMiss) return fillWithoutLease(rt, this)
    const item = rt.l1.get(this.key)
    if (item?.type === 'marker') item.nextLookupAt = rt.clock.now() + rt.failureBackoffMs
    this.advance(HIT_FOR_MISS)
  }

  /**
   * Discards a reply that a wake-up or purge made outdated. No waiter is left: for waiters,
   * `lookUp` has sent another lookup.
   */
  #discard(found: Found): void {
    const grant = 'grant' in found ? found.grant : undefined
    if (grant !== undefined) void releaseUnused(this.rt, this, grant)
    this.advance('again')
  }

  /** Waiters look up again only after the lease has ended. Before, they would find it, and wait. */
  #fillOrRelease(lease: Lease & { readonly grant: Grant }): void {
    if (fill(this.rt, this, lease)) return
    const released = releaseUnused(this.rt, this, lease.grant)
    if (released === undefined) this.advance('again')
    else void released.then(() => this.advance('again'))
  }

  /** Serves the stale entry. One process of the fleet has the lease, and refreshes it. */
  #serveStale({ stored: held, grant }: Extract<Found, { status: 'stale' }>, since: number): void {
    const isForeground = this.policy.revalidate === 'foreground' && grant !== undefined
    const first = isForeground ? this.first : undefined
    const leader = first !== undefined && !this.firstStays(held) ? first : undefined
    const stale: Resolution = { type: 'hit', held, stale: true, from: 'l2' }
    // A first waiter that does not lead still gets the result, or the stale entry if that is late.
    const behind = leader?.caller ?? this.refresher ?? this.first?.caller
    this.settleEach((waiter) => (waiter === first ? undefined : stale))
    if (grant === undefined) return this.advance(stale)
    const lease: Lease = { grant, since, previous: held, reason: 'stale', servedMeanwhile: held }
    if (behind !== undefined && fill(this.rt, this, lease, leader, behind)) return
    // All waiters left during the lookup.
    void releaseUnused(this.rt, this, grant)
    this.advance(stale)
  }

  /** The last response could not be shared. One request at a time finds out whether its own can. */
  #passAll({ grant, forMs }: Extract<Found, { status: 'pass' }>, since: number): void {
    const { rt } = this
    const delayMs = grant === undefined ? LEASE_INTERVAL_MS : 0
    rt.l1.put(this.key, newMarker(rt.clock.now(), forMs, delayMs), since)
    // If a request leads, the handler does not see its conditions and its range, and cannot send a
    // 304 or 206. Here the response is probably not storable, so hiding them would gain nothing. So
    // a request with such fields does not lead.
    const leader = grant && this.firstThat((caller) => !caller.hasConditionOrRange?.())
    this.settleEach((waiter) => (waiter === leader ? undefined : HIT_FOR_MISS))
    if (grant !== undefined && leader !== undefined) {
      const lease: Lease = { grant, since, previous: undefined, reason: 'hit-for-miss' }
      fill(rt, this, lease, leader)
      return
    }
    if (grant !== undefined) void releaseUnused(rt, this, grant)
    this.advance(HIT_FOR_MISS)
  }

  /**
   * The last value of `getOrSet` was skipped. This process runs its own factory once for all its
   * callers, also if another process has the lease.
   */
  #runAfterSkip({ grant, stored }: Extract<Found, { status: 'pass' }>, since: number): void {
    if (grant === undefined) return fillWithoutLease(this.rt, this)
    this.#fillOrRelease({ grant, since, previous: stored, reason: 'hit-for-miss' })
  }

  /** Shares the failure that the store remembers, or serves the stale entry. */
  #serveFailed({ failure, forMs, stored }: Extract<Found, { status: 'failed' }>): void {
    const { clock, events } = this.rt
    const stale = stored && clock.now() < stored.revalidateUntil ? stored : undefined
    const rest = { retryAfterMs: forMs, error: undefined, previous: stored }
    const shared = this.shareFailure({ type: 'failed', failure, ...rest }, stale !== undefined)
    if (shared !== 'again') events.emit({ type: 'failure.shared', key: this.key, failure })
    this.advance(stale ? { type: 'hit', held: stale, stale: true, from: 'l2' } : shared)
  }

  /**
   * Waits for another process that fills the key. The wait ends with the wake-up that the store
   * sends to each process whose lookup got `busy`, at the end of the lease, when messages may have
   * been lost (a gap), or when the store becomes unavailable. There is no polling.
   */
  #waitForHolder(busyForMs: number): void {
    if (this.size === 0) return this.advance('again')
    const { key, rt } = this
    const { clock, deadlines, events, counts } = rt
    const startedAt = clock.now()
    let isOver = false
    const end = (by: 'wake-up' | 'gap' | 'lost' | 'lease-end'): void => {
      if (isOver) return
      isOver = true
      deadlines.end(leaseEnd)
      const elapsedMs = clock.now() - startedAt
      counts.waitedMs += elapsedMs
      events.emit({ type: 'wait.ended', key, by, elapsedMs })
      // Messages that arrive together cause one lookup, so the flight goes on after all of them.
      queueMicrotask(() => this.advance('again'))
    }
    const untilMs = Math.max(busyForMs, LEAST_MS) + rt.random() * SPREAD_MS
    const leaseEnd = deadlines.set(() => end('lease-end'), startedAt + untilMs)
    this.beginWait('waiting', end)
    events.emit({ type: 'wait.started', key, busyForMs })
  }
}
