// Stage: what came of a fill becomes the fleet's: written under the fence, passed on, or shared as a
// failure. Answers what those who waited in this process are to be told.

import { freshnessAt, type HeldEntry } from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import type { Flight } from './flight.ts'
import { giveBack, tell } from './give-back.ts'
import type { FillResult, LeasedFill, Resolution, Runtime } from './runtime.ts'

/** How long a result is kept in L1 when the store cannot be reached: long enough to break a stampede. */
const UNCOORDINATED_MS = 1_000

/** Leaders that may come to nothing before everybody runs their own. */
const MOST_ABANDONED = 3

/** `again`: the commit was refused; what the leader got is its own only, and the others look again. */
export type Shared = Resolution | 'again'

type Store = Extract<FillResult, { type: 'store' }>

export async function commit(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  result: FillResult,
  startedAt: number,
): Promise<Shared> {
  const { grant, since, staleIfError } = leased
  const { key } = flight
  switch (result.type) {
    case 'store':
      return commitEntry(rt, leased, result, startedAt)
    case 'pass':
      if (result.remember) void tell(rt, grant, 'pass', () => rt.store.pass(grant, rt.passMs))
      else void giveBack(rt, grant)
      return passOn(rt, key, result, since)
    case 'failure': {
      const { failure, error } = result
      rt.events.emit({ type: 'fill.failed', key, failure, error })
      const awaited = isAwaited(rt, flight)
      const send = () => rt.store.fail(grant, failure, rt.failureBackoffMs, awaited)
      void tell(rt, grant, 'fail', send)
      return { type: 'failed', failure, retryAfterMs: rt.failureBackoffMs, error, staleIfError }
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
function isAwaited(rt: Runtime, { waiters, stale }: Flight): boolean {
  if (waiters.size > 0) return true
  return stale !== undefined && freshnessAt(stale, rt.clock.now()) === 'stale'
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

async function commitEntry(
  rt: Runtime,
  leased: LeasedFill,
  result: Store,
  startedAt: number,
): Promise<Shared> {
  const { grant, since } = leased
  const { key, fence } = grant
  const sentAt = rt.clock.now()
  const frame = encodeFrame(result.entry)
  const send = () => rt.store.commit(grant, frame, result.lifetimes)
  // Repeating it is harmless: the fence tells that it is the same commit.
  const reply = (await tell(rt, grant, 'commit', send)) ?? (await tell(rt, grant, 'commit', send))
  const elapsedMs = rt.clock.now() - startedAt
  if (reply === 'fenced') {
    rt.events.emit({ type: 'fill.fenced', key, fence, elapsedMs })
    return 'again'
  }
  if (reply === undefined) {
    void giveBack(rt, grant)
    return keepBriefly(rt, key, result, since)
  }
  rt.events.emit({ type: 'fill.committed', key, fence, elapsedMs })
  const held = holdFrom(result, fence, sentAt)
  // Refused when a purge came between: then the commit was good, and already is the past.
  if (!rt.l1.put(key, { type: 'hold', held, checkedAt: rt.clock.now(), askAgainAt: 0 }, since))
    return 'again'
  return { type: 'hit', held, stale: false, from: 'fill' }
}

/** The store is away: those who waited get the result, and L1 has it for a moment. */
export function keepToOurselves(
  rt: Runtime,
  flight: Flight,
  result: FillResult,
  since: number,
  staleIfError: HeldEntry | undefined,
): Shared {
  const { key } = flight
  if (result.type === 'store') return keepBriefly(rt, key, result, since)
  if (result.type === 'pass') return passOn(rt, key, result, since)
  if (result.type === 'abandoned') return abandoned(flight)
  const { failure, error } = result
  rt.events.emit({ type: 'fill.failed', key, failure, error })
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold') slot.askAgainAt = rt.clock.now() + rt.failureBackoffMs
  return { type: 'failed', failure, retryAfterMs: rt.failureBackoffMs, error, staleIfError }
}

/** A purge that came meanwhile refuses it, here too. */
function keepBriefly(rt: Runtime, key: string, result: Store, since: number): Shared {
  const now = rt.clock.now()
  const { freshMs } = result.lifetimes
  const briefly = { ...result.lifetimes, freshMs: Math.min(freshMs, UNCOORDINATED_MS) }
  const held = holdFrom({ ...result, lifetimes: briefly }, '', now)
  if (!rt.l1.put(key, { type: 'hold', held, checkedAt: rt.clock.now(), askAgainAt: 0 }, since))
    return 'again'
  return { type: 'hit', held, stale: false, from: 'fill' }
}

function holdFrom(result: Store, fence: string, writtenAt: number): HeldEntry {
  const staleAt = writtenAt + result.lifetimes.freshMs
  return {
    entry: result.entry,
    fence,
    bornAt: writtenAt,
    staleAt,
    revalidateUntil: staleAt + result.lifetimes.staleWhileRevalidateMs,
    errorUntil: staleAt + result.lifetimes.staleIfErrorMs,
  }
}
