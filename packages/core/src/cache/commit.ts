// Stage: what came of a fill becomes the fleet's: written under the fence, passed on, or shared as a
// failure. Answers what those who waited in this process are to be told.

import { freshnessAt, type HeldEntry, holdFor, type StoredEntry } from '../entry/entry.ts'
import { encodeFrame, encodeHead } from '../entry/frame.ts'
import { withOwnStrings } from '../entry/own-memory.ts'
import { CONFIRMED_FOR_MS, type Grant } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import { giveBack, tell } from './give-back.ts'
import { holdSlot } from './l1.ts'
import type { FillResult, LeasedFill, Resolution, Runtime } from './runtime.ts'

/**
 * How long a result is kept in L1 when the store cannot be reached: long enough to break a stampede, and no longer than a copy is trusted
 * without a word on purges.
 */
const UNCOORDINATED_MS = CONFIRMED_FOR_MS

/** Leaders that may come to nothing before everybody runs their own. */
const MOST_ABANDONED = 3

/** `again`: the commit was refused; what the leader got is its own only, and the others look again. */
export type Shared = Resolution | 'again'

/** There is an entry, new or found unchanged. */
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
      return passOn(rt, key, result, since)
    case 'failure': {
      const { failure, error } = result
      rt.events.emit({ type: 'fill.failed', key, failure, error })
      const awaited = isAwaited(rt, flight)
      const send = () => rt.store.fail(grant, failure, rt.failureBackoffMs, awaited)
      // Of what is fresh, and was to be refreshed early, it is nobody's business.
      const isFresh = previous && freshnessAt(previous, rt.clock.now()) === 'fresh'
      void (isFresh ? giveBack(rt, grant) : tell(rt, grant, 'fail', send))
      return { type: 'failed', failure, retryAfterMs: rt.failureBackoffMs, error, previous }
    }
    case 'abandoned':
      rt.events.emit({ type: 'fill.abandoned', key })
      await giveBack(rt, grant)
      return abandoned(flight)
  }
}

/**
 * Whether many would run into this failure one after the other: those who wait here, or who are answered stale meanwhile. With nobody
 * there, the next one is to see what the origin itself says.
 */
function isAwaited(rt: Runtime, { waiters, copy }: Flight): boolean {
  if (waiters.size > 0) return true
  return copy !== undefined && freshnessAt(copy, rt.clock.now()) === 'stale'
}

function passOn(
  rt: Runtime,
  key: string,
  { reason, remember }: Extract<FillResult, { type: 'pass' }>,
  since: number,
): Resolution {
  rt.events.emit({ type: 'fill.passed', key, reason })
  if (remember) rt.l1.put(key, { type: 'pass', until: rt.clock.now() + rt.passMs }, since)
  return { type: 'pass', reason }
}

/** A leader whose client left must not cost the others more than its own time; nor may leaders fail one by one. */
function abandoned(flight: Flight): Shared {
  flight.abandoned += 1
  return flight.abandoned < MOST_ABANDONED ? 'again' : { type: 'pass', reason: 'abandoned' }
}

/** Writes a new entry, or extends the one that was found unchanged. */
async function commitEntry(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  result: Made,
  startedAt: number,
): Promise<Shared> {
  const { grant, since } = leased
  const { key, fence } = grant
  const sentAt = rt.clock.now()
  const entry = timed(result.entry, leased.previous, sentAt - startedAt, result.lifetimes.freshMs)
  const held = holdFor(withOwnStrings(entry), fence, result.lifetimes, sentAt)
  const hit = { type: 'hit', held, stale: false, from: 'fill' } as const
  const send = sender(rt, grant, { ...result, entry })
  // What was purged while it was made is not written at all: nobody would use it.
  const isVoid = () => rt.marks.judge(entry.made) === 'void'
  if (isVoid()) await giveBack(rt, grant)
  // Repeating it is harmless: the fence tells that it is the same commit.
  const reply = isVoid()
    ? 'fenced'
    : ((await tell(rt, grant, 'commit', send)) ?? (await tell(rt, grant, 'commit', send)))
  const elapsedMs = rt.clock.now() - startedAt
  if (reply === 'fenced') {
    rt.events.emit({ type: 'fill.fenced', key, fence, elapsedMs })
    return forNobody(flight, hit)
  }
  if (reply === undefined) {
    void giveBack(rt, grant)
    return keepBriefly(rt, flight, { ...result, entry }, since, startedAt)
  }
  rt.events.emit({ type: 'fill.committed', key, fence, elapsedMs })
  // Refused when a purge came between: then the commit was good, and already is the past.
  const isPast = isVoid() || !rt.l1.put(key, holdSlot(hit.held, startedAt), since)
  return isPast ? forNobody(flight, hit) : hit
}

/** It may not be kept, and those who wait look again; but not for ever. */
function forNobody(flight: Flight, hit: Resolution): 'again' {
  flight.settleLongAwaited(hit)
  return 'again'
}

function sender(rt: Runtime, grant: Grant, { type, entry, lifetimes }: Made) {
  if (type === 'not-modified') {
    const patch = encodeHead(entry)
    return async () => {
      const reply = await rt.store.extend(grant, patch, lifetimes)
      // Refused also when the store has lost the entry; what this process has of it is whole.
      return reply === 'fenced' ? rt.store.commit(grant, encodeFrame(entry), lifetimes) : reply
    }
  }
  const frame = encodeFrame(entry)
  return () => rt.store.commit(grant, frame, lifetimes)
}

/** How much one run counts among those before it. */
const SMOOTHING = 0.3
/** However slow it was: of a part of its lifetime nobody should say that it is too late to begin. */
const LONGEST_PART = 0.05

/** How long it took to make, smoothed and bounded, so that one slow run does not have a key refreshed for ever. */
function timed<T extends StoredEntry>(
  entry: T,
  previous: HeldEntry | undefined,
  elapsedMs: number,
  freshMs: number,
): T {
  const before = previous?.entry.made.tookMs
  const smooth = before === undefined ? elapsedMs : before + SMOOTHING * (elapsedMs - before)
  const tookMs = Math.round(Math.max(0, Math.min(smooth, freshMs * LONGEST_PART)))
  return { ...entry, made: { ...entry.made, tookMs } }
}

/** The store is away: those who waited get the result, and L1 has it for a moment. */
export function keepToOurselves(
  rt: Runtime,
  flight: Flight,
  result: FillResult,
  since: number,
  previous: HeldEntry | undefined,
): Shared {
  const { key, fillingSince } = flight
  if (result.type === 'store' || result.type === 'not-modified')
    return keepBriefly(rt, flight, result, since, fillingSince)
  if (result.type === 'pass') return passOn(rt, key, result, since)
  if (result.type === 'abandoned') return abandoned(flight)
  const { failure, error } = result
  rt.events.emit({ type: 'fill.failed', key, failure, error })
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = rt.clock.now() + rt.failureBackoffMs
  return { type: 'failed', failure, retryAfterMs: rt.failureBackoffMs, error, previous }
}

/** A purge that came meanwhile refuses it, here too. */
function keepBriefly(
  rt: Runtime,
  flight: Flight,
  { entry, lifetimes }: Made,
  since: number,
  startedAt: number,
): Shared {
  const freshMs = Math.min(lifetimes.freshMs, UNCOORDINATED_MS)
  const held = holdFor(withOwnStrings(entry), '', { ...lifetimes, freshMs }, rt.clock.now())
  const isVoid = rt.marks.judge(entry.made) === 'void'
  const hit = { type: 'hit', held, stale: false, from: 'fill' } as const
  const isPast = isVoid || !rt.l1.put(flight.key, holdSlot(held, startedAt), since)
  return isPast ? forNobody(flight, hit) : hit
}
