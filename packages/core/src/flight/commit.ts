// Stage: the result of a fill is committed under its fence, passed on, or shared as a failure.
// Returns what the waiters of this process get.

import { freshnessAt, type HeldEntry, holdFor, type StoredEntry } from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import { isSpent, remaining } from '../entry/lifetimes.ts'
import { withOwnStrings } from '../entry/own-memory.ts'
import { holdSlot, type L1Hold, passSlot } from '../l1/l1.ts'
import { leftOf } from '../l1/validity.ts'
import { CONFIRMED_FOR_MS, type CommitReply, type Grant, type Lifetimes } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import { giveBack, tell } from './give-back.ts'
import type { FillResult, LeasedFill, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { shareFailure } from './shared-failure.ts'

/**
 * How long L1 keeps a result when the store cannot be reached: long enough to break a stampede, and
 * no longer than a copy is trusted without confirmation.
 */
const UNCOORDINATED_MS = CONFIRMED_FOR_MS

/**
 * Hit-for-miss: while another process holds the lease, or after a run that could not be stored either,
 * this process asks for the lease at most this often.
 */
export const QUIET_MS = 100

/** After this many runs without a usable result, every waiter runs the handler itself. */
const MOST_ABANDONED = 3

/** A result with an entry, new or found unchanged (304). */
type Made = Extract<FillResult, { type: 'store' | 'not-modified' }>

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
    case 'pass':
      if (result.remember) void tell(rt, grant, 'pass', () => rt.store.pass(grant, rt.passMs))
      else void giveBack(rt, grant)
      return passOn(rt, flight, result, since)
    case 'failure': {
      const { failure, error } = result
      rt.events.emit({ type: 'fill.failed', key, failure, error })
      const awaited = isAwaited(rt, flight)
      const send = () => rt.store.fail(grant, failure, rt.failureBackoffMs, awaited)
      // A failed early refresh is not recorded: the entry is still fresh.
      const isFresh = previous && freshnessAt(previous, rt.clock.now()) === 'fresh'
      const leaseEnded = isFresh ? giveBack(rt, grant) : tell(rt, grant, 'fail', send)
      const left = leftOf(rt, key, since, previous)
      const retryAfterMs = rt.failureBackoffMs
      const failed = { type: 'failed', failure, retryAfterMs, error, previous: left } as const
      const shared = shareFailure(rt, flight, failed)
      // Otherwise the next lookup finds this lease, and waits for it.
      if (shared === 'again') await leaseEnded
      return shared
    }
    case 'abandoned':
      rt.events.emit({ type: 'fill.abandoned', key })
      await giveBack(rt, grant)
      return abandoned(rt, flight, result)
  }
}

/**
 * Whether other requests would run into this failure: waiters, and requests that are served stale
 * meanwhile. Without them the failure is not shared, so the next request sees what the origin says
 * then.
 */
function isAwaited(rt: Runtime, { waiters, servedMeanwhile }: Flight): boolean {
  if (waiters.size > 0) return true
  return servedMeanwhile !== undefined && freshnessAt(servedMeanwhile, rt.clock.now()) === 'stale'
}

function passOn(
  rt: Runtime,
  { key, isPassing }: Flight,
  { reason, remember }: Extract<FillResult, { type: 'pass' }>,
  since: number,
): Resolution {
  rt.events.emit({ type: 'fill.passed', key, reason })
  // The first request after a response that could not be shared may fill; after two, only now and then.
  const quietMs = isPassing ? QUIET_MS : 0
  if (remember) rt.l1.put(key, passSlot(rt.clock.now(), rt.passMs, quietMs), since)
  return { type: 'pass', reason }
}

/**
 * Waiters look up again, and the next one leads. After a few runs without a usable result they stop
 * leading one after the other: each runs the handler itself.
 *
 * A run whose client left does not count. Waiters lead in order of arrival, so clients that leave
 * only delay the waiters behind them. If these runs counted, leaving would release a stampede.
 */
function abandoned(
  rt: Runtime,
  flight: Flight,
  { clientLeft }: Extract<FillResult, { type: 'abandoned' }>,
): Shared {
  if (clientLeft) return 'again'
  quiet(rt, flight.key)
  return flight.countAbandoned() < MOST_ABANDONED ? 'again' : { type: 'pass', reason: 'abandoned' }
}

/** A refresh without a result must not be started again by each request that comes. */
export function quiet(rt: Runtime, key: string): void {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = rt.clock.now() + rt.failureBackoffMs
}

/** Writes a new entry, or the one that was found unchanged, with its new fields and lifetimes. */
async function commitEntry(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  result: Made,
  startedAt: number,
): Promise<Shared> {
  const { grant, since } = leased
  const { key, fence } = grant
  const aged = agedTo(result, rt.clock.now())
  let made = owned(aged, smoothed(aged, leased.previous, startedAt))
  const isVoid = () => rt.marks.judge(made.entry.made) === 'void'
  const refused = () => {
    rt.events.emit({ type: 'fill.fenced', key, fence, elapsedMs: rt.clock.now() - startedAt })
    return forNobody(rt, flight, hitOf(made, fence))
  }
  // An entry that was purged or expired during its fill is not written: no lookup would use it.
  if (isVoid() || isSpent(made.lifetimes)) {
    await giveBack(rt, grant)
    reportCommit(result, 'fenced')
    if (isVoid()) return refused()
    rt.events.emit({ type: 'fill.passed', key, reason: 'expired' })
    return hitOf(made, fence)
  }
  const slotNow = () => {
    made = agedTo(made, rt.clock.now())
    return holdSlot(hitOf(made, fence).held, startedAt)
  }
  let slot = slotNow()
  const send = () => tell(rt, grant, 'commit', sender(rt, grant, made, slot))
  let reply = await send()
  if (reply === undefined) {
    // A repeated commit is harmless: the fence shows that it is the same.
    slot = slotNow()
    reply = await send()
  }
  reportCommit(result, reply)
  if (reply === 'fenced') return refused()
  if (reply === undefined) {
    void giveBack(rt, grant)
    return keepBriefly(rt, flight, made, since, startedAt)
  }
  const hit = hitWith(slot.held)
  rt.events.emit({ type: 'fill.committed', key, fence, elapsedMs: rt.clock.now() - startedAt })
  // `put` is refused if the key was purged meanwhile: the commit succeeded but is already outdated.
  const isPast = isVoid() || !rt.l1.put(key, slot, since)
  return isPast ? forNobody(rt, flight, hit) : hit
}

/**
 * The result cannot be stored, so waiters look up again. Those that have waited for too many fills
 * get it all the same.
 */
function forNobody(rt: Runtime, flight: Flight, hit: Resolution): 'again' {
  flight.waiters.settlePastRefusals(rt, hit)
  return 'again'
}

/**
 * RFC 9111 §4.2.3: age and lifetimes count from `bornAt`, but the store counts from its write. So
 * the time since `bornAt` is added to the stored age and subtracted from the lifetimes.
 */
function agedTo(made: Made, now: number): Made {
  // The store keeps whole milliseconds. Rounded up: an entry must not look younger than it is.
  const elapsedMs = Math.ceil(Math.max(0, now - made.bornAt))
  if (elapsedMs === 0) return made
  const { entry } = made
  const aged =
    entry.type === 'value' ? entry : { ...entry, initialAgeMs: entry.initialAgeMs + elapsedMs }
  return madeOf(made, aged, remaining(made.lifetimes, elapsedMs), made.bornAt + elapsedMs)
}

/** Tells the leader that asked for it, before the waiters are settled. */
function reportCommit(made: Made, reply: CommitReply | undefined): void {
  if (made.type === 'store') made.onCommit?.(reply)
}

/** The result with strings of its own. A slot copies the body. */
function owned(made: Made, tookMs: number): Made {
  return madeOf(made, withOwnStrings(made.entry, tookMs), made.lifetimes, made.bornAt)
}

function madeOf(made: Made, entry: StoredEntry, lifetimes: Lifetimes, bornAt: number): Made {
  if (made.type === 'store') {
    return { type: 'store', entry, lifetimes, bornAt, onCommit: made.onCommit }
  }
  return { type: 'not-modified', previous: made.previous, entry, lifetimes, bornAt }
}

function hitOf({ entry, lifetimes, bornAt }: Made, fence: string) {
  return hitWith(holdFor(entry, fence, lifetimes, bornAt))
}

function hitWith(held: HeldEntry) {
  return { type: 'hit', held, stale: false, from: 'fill' } as const
}

/** The commit. A store in this process takes the entry as it is. */
function sender(rt: Runtime, grant: Grant, { entry, lifetimes }: Made, slot: L1Hold) {
  const { local } = rt
  if (local !== undefined) return () => local.keep(grant, slot)
  const frame = encodeFrame(grant.key, entry)
  return () => rt.store.commit(grant, frame, lifetimes)
}

/** Weight of the newest run in the average. */
const SMOOTHING = 0.3
/**
 * Upper bound, as a part of the lifetime: one slow fill must not make most of the lifetime due for
 * an early refresh.
 */
const LONGEST_PART = 0.05

/**
 * The smoothed and bounded duration of the fill, so that one slow run does not cause early
 * refreshes for ever.
 */
function smoothed(
  { bornAt, lifetimes }: Made,
  previous: HeldEntry | undefined,
  startedAt: number,
): number {
  const elapsedMs = bornAt - startedAt
  const before = previous?.entry.made.tookMs
  const smooth = before === undefined ? elapsedMs : before + SMOOTHING * (elapsedMs - before)
  return Math.round(Math.max(0, Math.min(smooth, lifetimes.freshMs * LONGEST_PART)))
}

/** Without the store: waiters get the result, and L1 keeps it briefly. */
export function keepToOurselves(
  rt: Runtime,
  flight: Flight,
  result: FillResult,
  since: number,
  previous: HeldEntry | undefined,
): Shared {
  const { key, fillingSince } = flight
  if (result.type === 'store' || result.type === 'not-modified') {
    reportCommit(result, undefined)
    return keepBriefly(rt, flight, owned(result, result.entry.made.tookMs), since, fillingSince)
  }
  if (result.type === 'pass') return passOn(rt, flight, result, since)
  if (result.type === 'abandoned') return abandoned(rt, flight, result)
  const { failure, error } = result
  rt.events.emit({ type: 'fill.failed', key, failure, error })
  quiet(rt, key)
  const left = leftOf(rt, key, since, previous)
  const retryAfterMs = rt.failureBackoffMs
  return shareFailure(rt, flight, { type: 'failed', failure, retryAfterMs, error, previous: left })
}

/** Keeps the entry in L1, unless a purge came meanwhile. */
function keepBriefly(
  rt: Runtime,
  flight: Flight,
  result: Made,
  since: number,
  startedAt: number,
): Shared {
  const made = agedTo(result, rt.clock.now())
  const { entry, lifetimes } = made
  const freshMs = Math.min(lifetimes.freshMs, UNCOORDINATED_MS)
  const hit = hitOf({ ...made, lifetimes: { ...lifetimes, freshMs } }, '')
  const isVoid = rt.marks.judge(entry.made) === 'void'
  if (!isVoid && isSpent(lifetimes)) return hit
  const isPast = isVoid || !rt.l1.put(flight.key, holdSlot(hit.held, startedAt), since)
  return isPast ? forNobody(rt, flight, hit) : hit
}
