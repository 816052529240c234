// Ends a fill. An entry is committed to the store, and a failure is shared with the waiters. A
// response that is not storable makes the key hit-for-miss, so that its requests do not wait for
// each other. The result is the resolution for the waiters.

import { freshnessAt, type HeldEntry, heldEntry, type StoredEntry } from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import { isSpent, remaining } from '../entry/lifetimes.ts'
import { withOwnStrings } from '../entry/own-memory.ts'
import { type L1Copy, newCopy, newMarker } from '../l1/l1.ts'
import { stillValid } from '../l1/validity.ts'
import { CONFIRMED_FOR_MS, type CommitReply, type Grant, type Lifetimes } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import { releaseLease, trySend } from './release-lease.ts'
import type { FillResult, LeasedFill, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { delayRefresh, shareFailure } from './shared-failure.ts'
import { emitEnd } from './traced-fill.ts'

/**
 * Longest TTL of an entry that is in L1 only, because it could not be committed. This time is long
 * enough to stop a stampede. L1 may serve any copy for this time before the process must confirm
 * that it missed no purge.
 */
const UNCOORDINATED_MS = CONFIRMED_FOR_MS

/**
 * The pause of this process between two lookups for the lease of a hit-for-miss key. The pause
 * applies while another process holds the lease, and after two responses in a row that were not
 * storable.
 */
export const LEASE_INTERVAL_MS = 100

/**
 * After this many runs of one flight without a usable result, every waiter runs the handler itself.
 */
const MOST_UNUSABLE_RUNS = 3

/** A result with an entry, which is new or was confirmed by the origin (304). */
type EntryResult = Extract<FillResult, { type: 'store' | 'not-modified' }>

export async function commit(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  result: FillResult,
  startedAt: number,
): Promise<Shared> {
  const { grant, since, previous } = leased
  const { key } = flight
  switch (result.type) {
    case 'store':
    case 'not-modified':
      return commitEntry(rt, flight, leased, result, startedAt)
    case 'pass': {
      const shared = resolveNotStorable(rt, flight, result, leased)
      const isHitForMiss = result.remember && shared !== 'again'
      const leaseEnded = isHitForMiss
        ? trySend(rt, grant, 'pass', () => rt.store.pass(grant, rt.passMs))
        : releaseLease(rt, grant)
      if (shared === 'again') await leaseEnded
      return shared
    }
    case 'failure': {
      const { failure, error } = result
      emitEnd(rt, flight, { type: 'fill.failed', failure, error })
      const awaited = isAwaited(rt, flight)
      const send = () => rt.store.fail(grant, failure, rt.failureBackoffMs, awaited)
      delayRefresh(rt, key, failure.like)
      const leaseEnded = trySend(rt, grant, 'fail', send)
      const usable = stillValid(rt, key, since, previous)
      const retryAfterMs = rt.failureBackoffMs
      const failed = { type: 'failed', failure, retryAfterMs, error, previous: usable } as const
      const shared = shareFailure(flight, failed)
      // Waiters look up again. If the lease still existed then, their lookup would wait for its
      // end.
      if (shared === 'again') await leaseEnded
      return shared
    }
    case 'abandoned':
      emitEnd(rt, flight, { type: 'fill.abandoned' })
      await releaseLease(rt, grant)
      return resolveAbandoned(rt, flight, result)
  }
}

/**
 * Whether requests of this process depend on this fill: waiters, or requests that are served stale
 * during the fill. If no request of any process depends on the fill, the store does not remember
 * its failure, and the next request runs the origin.
 */
function isAwaited(rt: Runtime, { waiters, servedMeanwhile }: Flight): boolean {
  if (waiters.size > 0) return true
  return servedMeanwhile !== undefined && freshnessAt(servedMeanwhile, rt.clock.now()) === 'stale'
}

/**
 * Ends a run whose response is not storable. The reason may be the request of the leader, such as
 * an odd header. Then waiters look up again, as after a run without a usable result.
 */
function resolveNotStorable(
  rt: Runtime,
  flight: Flight,
  result: Extract<FillResult, { type: 'pass' }>,
  { since, previous }: Pick<LeasedFill, 'since' | 'previous'>,
): Shared {
  const { key, isHitForMiss } = flight
  const { reason, remember, like } = result
  emitEnd(rt, flight, { type: 'fill.passed', reason })
  if (!remember) delayRefresh(rt, key, like)
  if (flight.waiters.size > 0 && mayConcernOneRequest(result, previous)) {
    if (flight.countUnusableRun() < MOST_UNUSABLE_RUNS) return 'again'
  }
  // After a response that cannot be shared, the next request may take the lease at once. After two
  // in a row, this process waits between its requests for the lease.
  const delayMs = isHitForMiss ? LEASE_INTERVAL_MS : 0
  if (remember) rt.l1.put(key, newMarker(rt.clock.now(), rt.passMs, delayMs), since)
  return { type: 'pass', reason }
}

/**
 * A status such as 404 concerns the resource, but an odd header may be its reason too. If there is
 * an entry, it is dropped at once, because a page that is gone must not be served.
 */
function mayConcernOneRequest(
  { reason, remember }: Extract<FillResult, { type: 'pass' }>,
  previous: HeldEntry | undefined,
): boolean {
  return !remember || (reason === 'status' && previous === undefined)
}

/**
 * Ends a run without a usable result. Waiters look up again, and the next one leads. After a few
 * such runs, each waiter runs the handler itself.
 *
 * A run whose client left does not count. Waiters lead in order of arrival, so a client that leaves
 * only delays the waiters after it. If these runs counted, a few clients that leave would cause a
 * stampede.
 */
function resolveAbandoned(
  rt: Runtime,
  flight: Flight,
  { clientLeft, like }: Extract<FillResult, { type: 'abandoned' }>,
): Shared {
  if (clientLeft) return 'again'
  delayRefresh(rt, flight.key, like)
  return flight.countUnusableRun() < MOST_UNUSABLE_RUNS
    ? 'again'
    : { type: 'pass', reason: 'abandoned' }
}

/** Writes a new entry, or a confirmed one (304) with its new fields and lifetimes. */
async function commitEntry(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  result: EntryResult,
  startedAt: number,
): Promise<Shared> {
  const { grant, since } = leased
  const { key, fence } = grant
  const aged = agedTo(result, rt.clock.now())
  let current = withOwnMemory(aged, durationMs(aged, startedAt))
  const isPurged = () => rt.marks.judge(current.entry.provenance) === 'purged'
  const refuse = () => {
    emitEnd(rt, flight, { type: 'fill.fenced', fence })
    return letWaitersLookAgain(flight, hitOf(rt, key, current, fence))
  }
  // An entry that was purged or expired during its fill is not written, because no lookup would use
  // it.
  if (isPurged() || isSpent(current.lifetimes)) {
    await releaseLease(rt, grant)
    reportCommit(result, 'fenced')
    if (isPurged()) return refuse()
    emitEnd(rt, flight, { type: 'fill.passed', reason: 'expired' })
    return hitOf(rt, key, current, fence)
  }
  const itemNow = () => {
    current = agedTo(current, rt.clock.now())
    return newCopy(hitOf(rt, key, current, fence).held, startedAt)
  }
  let item = itemNow()
  // After close(), the store would refuse the entry. Waiters would then run the origin once more.
  const send = () =>
    rt.keeper.isStopped
      ? undefined
      : trySend(rt, grant, 'commit', commitCommand(rt, grant, current, item))
  let reply = await send()
  if (reply === undefined) {
    // One retry. Repeating a commit is harmless: the store recognises it by its fence.
    item = itemNow()
    reply = await send()
  }
  reportCommit(result, reply)
  if (reply === 'fenced') return refuse()
  if (reply === undefined) {
    void releaseLease(rt, grant)
    return keepInL1Only(rt, flight, current, since, startedAt)
  }
  const hit = hitWith(item.held)
  // L1 may have room for an entry that is too large for the store.
  const isOnly = reply === 'too-large'
  if (isOnly) emitEnd(rt, flight, { type: 'fill.passed', reason: 'too-large' })
  else emitEnd(rt, flight, { type: 'fill.committed', fence })
  // `put` returns false if the key was purged meanwhile. The commit succeeded then, but the entry
  // is already outdated. `resolve` checks the purges of its subjects.
  return rt.l1.put(key, item, since, isOnly) ? hit : letWaitersLookAgain(flight, hit)
}

/**
 * The commit was refused, or the entry was purged. So waiters look up again. Only a waiter that has
 * already waited for too many fills gets this entry.
 */
function letWaitersLookAgain(flight: Flight, hit: Resolution): 'again' {
  flight.waiters.settleAtLimit(hit)
  return 'again'
}

/**
 * RFC 9111 §4.2.3: the result as of `now`. Age and lifetimes count from `bornAt`, but the store
 * counts from its write. So the time since `bornAt` is added to the age and subtracted from the
 * lifetimes.
 */
function agedTo(result: EntryResult, now: number): EntryResult {
  // The store has whole milliseconds. Rounding up never makes an entry look younger than it is.
  const elapsedMs = Math.ceil(Math.max(0, now - result.bornAt))
  if (elapsedMs === 0) return result
  const { entry } = result
  const aged =
    entry.type === 'value' ? entry : { ...entry, initialAgeMs: entry.initialAgeMs + elapsedMs }
  return withEntry(result, aged, remaining(result.lifetimes, elapsedMs), result.bornAt + elapsedMs)
}

/** Calls `onCommit` before the waiters are settled. */
function reportCommit(result: EntryResult, reply: CommitReply | 'too-large' | undefined): void {
  if (result.type === 'store') result.onCommit?.(reply)
}

/** The result with copies of its strings, because a string may keep a longer one in memory. */
function withOwnMemory(result: EntryResult, tookMs: number): EntryResult {
  return withEntry(result, withOwnStrings(result.entry, tookMs), result.lifetimes, result.bornAt)
}

function withEntry(
  result: EntryResult,
  entry: StoredEntry,
  lifetimes: Lifetimes,
  bornAt: number,
): EntryResult {
  if (result.type === 'store') {
    return { type: 'store', entry, lifetimes, bornAt, onCommit: result.onCommit }
  }
  return { type: 'not-modified', previous: result.previous, entry, lifetimes, bornAt }
}

function hitOf(
  { counts }: Runtime,
  key: string,
  { entry, lifetimes, bornAt }: EntryResult,
  fence: string,
) {
  return hitWith(heldEntry(entry, fence, lifetimes, bornAt, counts.of(key, entry)))
}

function hitWith(held: HeldEntry) {
  return { type: 'hit', held, stale: false, from: 'fill' } as const
}

/** The commit command. A store in this process gets the L1 copy itself, so nothing is encoded. */
function commitCommand(rt: Runtime, grant: Grant, { entry, lifetimes }: EntryResult, item: L1Copy) {
  const { local } = rt
  if (local !== undefined) return () => local.keep(grant, item)
  const frame = encodeFrame(grant.key, entry)
  return () => rt.store.commit(grant, frame, lifetimes)
}

function durationMs({ bornAt }: EntryResult, startedAt: number): number {
  return Math.round(Math.max(0, bornAt - startedAt))
}

/**
 * Ends a fill without a lease. Waiters of this process get the result. An entry goes into L1 with a
 * short TTL.
 */
export function shareInProcess(
  rt: Runtime,
  flight: Flight,
  result: FillResult,
  since: number,
  previous: HeldEntry | undefined,
): Shared {
  const { key, fillingSince } = flight
  if (result.type === 'store' || result.type === 'not-modified') {
    reportCommit(result, undefined)
    const tookMs = durationMs(result, fillingSince)
    return keepInL1Only(rt, flight, withOwnMemory(result, tookMs), since, fillingSince)
  }
  if (result.type === 'pass') return resolveNotStorable(rt, flight, result, { since, previous })
  if (result.type === 'abandoned') return resolveAbandoned(rt, flight, result)
  const { failure, error } = result
  emitEnd(rt, flight, { type: 'fill.failed', failure, error })
  delayRefresh(rt, key, failure.like)
  const usable = stillValid(rt, key, since, previous)
  const retryAfterMs = rt.failureBackoffMs
  return shareFailure(flight, {
    type: 'failed',
    failure,
    retryAfterMs,
    error,
    previous: usable,
  })
}

/** Puts the entry into L1 with a short TTL, unless its key was purged during the fill. */
function keepInL1Only(
  rt: Runtime,
  flight: Flight,
  result: EntryResult,
  since: number,
  startedAt: number,
): Shared {
  const aged = agedTo(result, rt.clock.now())
  const { lifetimes } = aged
  const freshMs = Math.min(lifetimes.freshMs, UNCOORDINATED_MS)
  const hit = hitOf(rt, flight.key, { ...aged, lifetimes: { ...lifetimes, freshMs } }, '')
  if (isSpent(lifetimes)) return hit
  const isPut = rt.l1.put(flight.key, newCopy(hit.held, startedAt), since)
  return isPut ? hit : letWaitersLookAgain(flight, hit)
}
