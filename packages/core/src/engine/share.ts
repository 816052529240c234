// Ends a fill: commits the entry, shares the failure, or lets the waiters look up again. A fill
// with a lease tells the store. A fill without one gives its result to this process only.
//
// One unusual header can make a handler fail. So a failure is first shared with like requests only,
// whose target and header fields are equal. Then one unlike request runs the handler. If that run
// fails too, all requests share the failure.

import { routeOf } from '../entry/counts.ts'
import {
  agedBy,
  type HeldEntry,
  heldEntry,
  isSpent,
  remaining,
  type StoredEntry,
  withOwnStrings,
} from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import { type L1Copy, newCopy, newMarker } from '../l1/l1.ts'
import { stillValid } from '../l1/purges.ts'
import { delayRefresh } from '../l1/refresh-delay.ts'
import { releaseLease, trySend } from '../lease/release.ts'
import {
  CONFIRMED_FOR_MS,
  type CommitReply,
  type Grant,
  type Lifetimes,
  type Receiver,
} from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import type { FillEnd } from '../traces.ts'
import type { Flight } from './flight.ts'
import { ask } from './lookup.ts'
import type { FillResult, Lead, Lease, Resolution, Shared, Skipped } from './types.ts'

/**
 * The pause of this process between two lookups for the lease of a hit-for-miss key, while another
 * process holds the lease, or after two responses in a row that were not storable.
 */
export const LEASE_INTERVAL_MS = 100

/** After this many runs of one flight without a usable result, every waiter runs the handler. */
const MOST_UNUSABLE_RUNS = 3

type Committed = CommitReply | 'too-large'
type Pass = Extract<FillResult, { type: 'pass' }>
type EntryResult = Extract<FillResult, { type: 'store' }>

/** A run of the origin that has its result. */
interface EndedRun extends Pick<Lead, 'asOf'> {
  readonly rt: Runtime
  readonly flight: Flight
  readonly lease: Lease
  readonly startedAt: number
  /** Digest of its request. Undefined if it has none, or if an unlike request has failed before. */
  readonly like: string | undefined
  /** Emits the event that ends the fill. */
  emitEnd(event: FillEnd): void
  done(shared: Shared): void
}

/** Calls `run.done` with the resolution for the waiters. */
export function share(run: EndedRun, result: FillResult): void {
  const { rt, flight, lease } = run
  const { grant } = lease
  switch (result.type) {
    case 'store':
      return new Commit(run, result).begin()
    case 'pass':
      return endPass(run, result)
    case 'skipped':
      return endSkip(run, result)
    case 'failure': {
      const { error } = result
      const { like } = run
      const failure = like === undefined ? result.failure : { ...result.failure, like }
      run.emitEnd({ type: 'fill.failed', failure, error })
      const awaited = isAwaited(run)
      delayRefresh(rt, flight.key, like)
      if (rt.records === undefined && awaited)
        rt.l1.fail(flight.key, failure, rt.failureBackoffMs, lease.since)
      const ended = trySend(rt, grant, 'fail', (store, ours) =>
        store.fail(ours, failure, rt.failureBackoffMs, awaited),
      )
      const previous = stillValid(rt, flight.key, lease.since, lease.previous)
      const retryAfterMs = rt.failureBackoffMs
      const failed = { type: 'failed', failure, retryAfterMs, error, previous } as const
      return endLease(run, ended, flight.shareFailure(failed))
    }
    case 'abandoned': {
      run.emitEnd({ type: 'fill.abandoned' })
      const release = releaseLease(rt, grant)
      const end = () => run.done(result.clientLeft ? 'again' : shareAbandoned(run))
      return release === undefined ? end() : void release.then(end)
    }
  }
}

/**
 * Waiters look up again only after the lease has ended. Before, they would find it, and wait.
 */
function endLease(run: EndedRun, ended: Promise<unknown> | undefined, shared: Shared): void {
  if (ended === undefined || shared !== 'again') return run.done(shared)
  ended.then(() => run.done(shared))
}

/**
 * Whether requests of this process depend on this fill: waiters, or requests that are served stale
 * during the fill. If no request of any process depends on the fill, the store does not remember
 * its failure, and the next request runs the origin.
 */
function isAwaited({ rt, flight }: EndedRun): boolean {
  const { size, servedMeanwhile } = flight
  if (size > 0) return true
  return servedMeanwhile !== undefined && rt.clock.now() < servedMeanwhile.revalidateUntil
}

/**
 * Ends a run whose response is not storable. The request of the leader may be the reason, such as
 * an odd header or a first visit, which sets a cookie. So the key becomes hit-for-miss only after
 * the second such response in a row, of any process. After the first, waiters look up again, and an
 * older entry stays for stale-if-error and revalidation.
 */
function endPass(run: EndedRun, result: Pass): void {
  const { rt, flight, lease } = run
  const { key, isHitForMiss, size } = flight
  const { grant, since, previous } = lease
  const { reason, remember, dropsPrevious } = result
  const runs = flight.countUnusableRun()
  run.emitEnd({ type: 'fill.passed', reason })
  if (!remember) delayRefresh(rt, key, run.like)
  const shared = { type: 'pass', reason } as const
  // A status such as 404 concerns the resource, but an odd header may be its reason too. So more
  // waiters may try, unless there is an entry: a page that is gone must not be served.
  const mayConcernOne = !remember || (reason === 'status' && previous === undefined)
  const isAgain = mayConcernOne && size > 0 && runs < MOST_UNUSABLE_RUNS
  if (isAgain || !remember) {
    return endLease(run, releaseLease(rt, grant), isAgain ? 'again' : shared)
  }
  const isKnown = flight.hasPassed || rt.l1.hasPassed(key, rt.passMs)
  flight.hasPassed = true
  const mayBeFirst = runs < MOST_UNUSABLE_RUNS && !isHitForMiss && !isKnown
  // With a soft timeout, the entry would be served for a slow run too.
  const isForErrors = flight.policy.softTimeoutMs === undefined
  const mayKeep = mayBeFirst && isForErrors && reason !== 'status' && !dropsPrevious
  const keeps = mayKeep ? previous : undefined
  const end = (isFirst: boolean) => {
    const [forMs, delayMs] = isFirst ? [0, 0] : [rt.passMs, LEASE_INTERVAL_MS]
    if (!isFirst || !rt.l1.keepForErrors(key, keeps?.fence, since))
      rt.l1.put(key, newMarker(rt.clock.now(), forMs, delayMs), since)
    // Without a lease, a waiter could have to wait for a concurrency slot.
    run.done(isFirst && grant !== undefined ? 'again' : shared)
  }
  const isFirst = keeps === undefined ? mayBeFirst : 'keep'
  const pass = trySend(rt, grant, 'pass', (store, ours) => store.pass(ours, rt.passMs, isFirst))
  if (pass === undefined || !mayBeFirst) return end(mayBeFirst)
  void pass.then((reply) => {
    if (reply === undefined) void releaseLease(rt, grant)
    end(reply !== 'committed')
  })
}

/** Ends a run whose value is not to be stored. An older entry stays as it is. */
function endSkip(run: EndedRun, result: Skipped): void {
  const { rt, flight } = run
  const { grant, since } = run.lease
  run.emitEnd({ type: 'fill.skipped' })
  delayRefresh(rt, flight.key, undefined, result.skipMs)
  const pass = trySend(rt, grant, 'pass', (store, ours) => store.pass(ours, result.skipMs, 'skip'))
  const ended = pass?.then((reply): unknown => reply ?? releaseLease(rt, grant))
  // Waiters that came after a purge must not get a value from before it. Its tags are unknown.
  const mayBePurged = rt.l1.isPurgedSince(flight.key, since) || rt.marks.newest > run.asOf
  if (mayBePurged) flight.settleAtLimit(result)
  endLease(run, ended, mayBePurged ? 'again' : result)
}

/**
 * Ends a run without a usable result. Waiters look up again, and the next one leads. After a few
 * such runs, each waiter runs the handler itself.
 *
 * A run whose client left does not count. Waiters lead in order of arrival, so a client that leaves
 * only delays the waiters after it. If these runs counted, a few clients that leave would cause a
 * stampede.
 */
function shareAbandoned({ rt, flight, like }: EndedRun): Shared {
  delayRefresh(rt, flight.key, like)
  return flight.countUnusableRun() < MOST_UNUSABLE_RUNS
    ? 'again'
    : { type: 'pass', reason: 'abandoned' }
}

/** Writes a new entry, or a confirmed one (304) with its new fields and lifetimes. */
class Commit implements Receiver<Committed> {
  readonly #run: EndedRun
  readonly #result: EntryResult
  readonly #entry: StoredEntry
  /** The copy that is being committed. */
  #item: L1Copy | undefined
  #isRetry = false
  /** Whole milliseconds since `bornAt`, when `#lifetimes` was called. */
  #elapsedMs = 0

  constructor(run: EndedRun, result: EntryResult) {
    this.#run = run
    this.#result = result
    // A copy of its strings, because a string may keep a longer one in memory.
    const tookMs = Math.round(Math.max(0, run.rt.clock.now() - run.startedAt))
    this.#entry = withOwnStrings(result.entry, tookMs)
  }

  /** An entry that was purged or expired during its fill is not written: no lookup would use it. */
  begin(): void {
    const { rt, lease } = this.#run
    const { grant } = lease
    if (grant === undefined) {
      this.#result.onCommit?.(undefined)
      return this.#keepInL1Only()
    }
    const isPurged = rt.marks.judge(this.#entry.provenance) === 'purged'
    const lifetimes = this.#lifetimes()
    if (!isPurged && !isSpent(lifetimes)) return this.#send(grant, lifetimes)
    const end = () => this.#endUnwritten(grant)
    const released = releaseLease(rt, grant)
    if (released === undefined) end()
    else void released.then(end)
  }

  #endUnwritten(grant: Grant): void {
    this.#result.onCommit?.('fenced')
    const { marks } = this.#run.rt
    if (marks.judge(this.#entry.provenance) === 'purged') return this.#refuse(grant)
    this.#passed('expired')
    this.#end(this.#held(grant.fence, this.#lifetimes()), true)
  }

  #send(grant: Grant, lifetimes: Lifetimes): void {
    const { rt, flight, lease, startedAt } = this.#run
    const { records, keeper, l1 } = rt
    const item = newCopy(this.#held(grant.fence, lifetimes), startedAt)
    this.#item = item
    if (records === undefined) {
      const isPut = l1.put(grant.key, item, lease.since)
      const isTooLarge = isPut && !l1.fits(grant.key, item)
      return this.resolve(isTooLarge ? 'too-large' : isPut ? 'committed' : 'fenced')
    }
    // After close(), the store would refuse the entry. Waiters would then run the origin once more.
    if (keeper.isStopped) return this.resolve(undefined)
    const frame = encodeFrame(grant.key, item.held.entry)
    const args = [grant, frame, lifetimes, flight.first !== undefined] as const
    ask<typeof args, Committed>(records, records.commit, args, this)
  }

  reject(error: unknown): void {
    const { rt, flight, lease } = this.#run
    const { grant } = lease
    const { key } = flight
    rt.events.emit({ type: 'store.failed', key, operation: 'commit', error })
    if (this.#isRetry || grant === undefined) return this.resolve(undefined)
    // Repeating a commit is harmless: the store recognises it by its fence.
    this.#isRetry = true
    this.#send(grant, this.#lifetimes())
  }

  resolve(reply: Committed | undefined): void {
    const { rt, lease } = this.#run
    const item = this.#item
    const { grant, since } = lease
    this.#result.onCommit?.(reply)
    if (grant === undefined || item === undefined) return
    if (reply === 'fenced') return this.#refuse(grant)
    if (reply === undefined) {
      void releaseLease(rt, grant)
      return this.#keepInL1Only()
    }
    // L1 may have room for an entry that is too large for the store. Without a store, L1 has it.
    const isOnly = reply === 'too-large'
    if (isOnly) this.#passed('too-large')
    else this.#run.emitEnd({ type: 'fill.committed', fence: grant.fence })
    // `put` returns false if the key was purged meanwhile. The commit succeeded then, but the entry
    // is already outdated. The engine checks the purges of its subjects.
    this.#end(item.held, rt.records === undefined || rt.l1.put(grant.key, item, since, isOnly))
  }

  /** Puts the entry into L1 with a short TTL, unless its key was purged during the fill. */
  #keepInL1Only(): void {
    const left = this.#lifetimes()
    const held = this.#held('', { ...left, freshMs: Math.min(left.freshMs, UNCOORDINATED_MS) })
    if (isSpent(left)) return this.#end(held, true)
    const { rt, flight, lease, startedAt } = this.#run
    this.#end(held, rt.l1.put(flight.key, newCopy(held, startedAt), lease.since))
  }

  /** The entry is not stored for the fleet. */
  #passed(reason: 'expired' | 'too-large'): void {
    const { rt, flight } = this.#run
    this.#run.emitEnd({ type: 'fill.passed', reason })
    rt.counts.refused(reason, routeOf(flight.key, this.#entry))
  }

  /** The commit was refused, or the entry was purged. */
  #refuse({ fence }: Grant): void {
    this.#run.emitEnd({ type: 'fill.fenced', fence })
    this.#end(this.#held(fence, this.#lifetimes()), false)
  }

  /**
   * If the entry is not usable, waiters look up again. Only a waiter that has already waited for
   * too many fills gets the entry.
   */
  #end(held: HeldEntry, isUsable: boolean): void {
    const hit: Resolution = { type: 'hit', held, stale: false, from: 'fill' }
    if (isUsable) return this.#run.done(hit)
    this.#run.flight.settleAtLimit(hit)
    this.#run.done('again')
  }

  /**
   * RFC 9111 §4.2.3: age and lifetimes count from `bornAt`, but the store counts from its write.
   * Rounding up never makes an entry look younger than it is.
   */
  #lifetimes(): Lifetimes {
    const { bornAt, lifetimes } = this.#result
    this.#elapsedMs = Math.ceil(Math.max(0, this.#run.rt.clock.now() - bornAt))
    return remaining(lifetimes, this.#elapsedMs)
  }

  /** The entry as it is now, at the time of `lifetimes`. */
  #held(fence: string, lifetimes: Lifetimes): HeldEntry {
    const { rt, flight } = this.#run
    const elapsedMs = this.#elapsedMs
    const entry = elapsedMs > 0 ? agedBy(this.#entry, elapsedMs) : this.#entry
    const writtenAt = this.#result.bornAt + elapsedMs
    const { freshMs, physicalMs: _, ...windows } = lifetimes
    const counts = rt.counts.route(routeOf(flight.key, entry))
    return heldEntry(entry, fence, freshMs, windows, writtenAt, counts)
  }
}

/**
 * Longest TTL of an entry that is in L1 only, as its commit failed. It stops a stampede. L1 may
 * serve any copy for this time before the process must confirm that it missed no purge.
 */
const UNCOORDINATED_MS = CONFIRMED_FOR_MS
