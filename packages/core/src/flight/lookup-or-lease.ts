// Stage: one round trip that reads the entry and, if it needs a fill, takes the lease. Converts the
// store's relative times to moments of this process, and promotes the entry into L1.

import { freshnessAt, type HeldEntry, type StoredEntry } from '../entry/entry.ts'
import { decodeFrame } from '../entry/frame.ts'
import { holdSlot } from '../l1/l1.ts'
import { afterPurges, goodCopy } from '../l1/validity.ts'
import { isDataKey } from '../ports/key.ts'
import type { Failure, Grant, LookupReply, LookupRequest, StoredFrame } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import { giveUpLease } from './give-back.ts'
import { forget } from './hints.ts'
import type { Runtime } from './runtime.ts'

/** The reply with its entry decoded. An unreadable frame counts as no entry. */
export type Found =
  | { readonly status: 'fresh'; readonly held: HeldEntry; readonly grant: Grant | undefined }
  | {
      readonly status: 'stale'
      readonly held: HeldEntry
      readonly grant: Grant | undefined
      readonly busyForMs: number
    }
  | {
      readonly status: 'leased'
      readonly grant: Grant
      readonly previous: HeldEntry | undefined
    }
  | { readonly status: 'busy'; readonly busyForMs: number }
  | { readonly status: 'pass'; readonly forMs: number; readonly grant?: Grant }
  | {
      readonly status: 'failed'
      readonly failure: Failure
      readonly forMs: number
      readonly held: HeldEntry | undefined
    }

export interface Lookup {
  /** Undefined when the store cannot be reached. */
  readonly found: Found | undefined
  /** The entry that the lookup asked to refresh early. */
  readonly early: HeldEntry | undefined
  /** L1's sequence before the lookup was sent. */
  readonly since: number
}

/** A reply of one status, with L1's sequence before its lookup. */
export type FoundAs<S extends Found['status']> = Extract<Found, { status: S }> &
  Pick<Lookup, 'since'>

/** If the store fails in between, a lease that an earlier reply gave is given back. */
export async function lookupOrLease(rt: Runtime, flight: Flight): Promise<Lookup> {
  let granted: Grant | undefined
  for (;;) {
    const early = flight.beginLookup(rt)
    const since = rt.l1.sequence()
    try {
      const found = await ask(rt, flight.key, requestOf(flight, early), early)
      granted = 'grant' in found ? found.grant : undefined
      // A wake-up or purge overtook the reply, which may be outdated. Asking again with the same
      // token gives the same lease, if it is still ours. An early refresh does not ask again.
      if (flight.isOutdated && early === undefined && flight.waiters.size > 0) continue
      flight.endLookup(found.status === 'pass')
      return { found, early, since }
    } catch (error) {
      if (granted !== undefined) void giveUpLease(rt, flight, granted)
      rt.events.emit({ type: 'store.failed', key: flight.key, operation: 'lookup', error })
      flight.endLookup(flight.isPassing)
      return { found: undefined, early, since }
    }
  }
}

function requestOf(flight: Flight, early: HeldEntry | undefined): LookupRequest {
  const { token, policy, doubted } = flight
  const like = doubted && flight.waiters.first()?.caller.likeness?.()
  if (!early && !like) return { token, leaseMs: policy.leaseMs }
  return {
    token,
    leaseMs: policy.leaseMs,
    ...(early && { early: true }),
    ...(like && { like }),
  }
}

/** Reads without taking the lease: for HEAD, which cannot fill. */
export async function peek(rt: Runtime, key: string): Promise<HeldEntry | undefined> {
  const slot = rt.l1.get(key)
  const copy = slot?.type === 'hold' ? goodCopy(rt, slot) : undefined
  if (copy !== undefined && freshnessAt(copy, rt.clock.now()) === 'fresh') {
    rt.events.hit(key, 'l1', false)
    return copy
  }
  const found = await ask(rt, key, { token: '', leaseMs: 0 })
  if (found.status !== 'fresh' && found.status !== 'stale') return undefined
  rt.events.hit(key, 'l2', found.status === 'stale')
  return found.held
}

/** Drops an entry that its caller cannot read, here and in the store. A newer one stays there. */
export async function dropUnreadable(
  rt: Runtime,
  key: string,
  { fence }: HeldEntry,
): Promise<void> {
  forget(rt, key)
  try {
    await rt.store.lookup(key, { token: '', leaseMs: 0, outdated: { fence, soft: false } })
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key, operation: 'lookup', error })
  }
}

/** `previous`: the caller's copy, used if L1 has none. */
async function ask(
  rt: Runtime,
  key: string,
  request: LookupRequest,
  previous?: HeldEntry,
): Promise<Found> {
  const known = knownCopy(rt, key, previous)
  const since = rt.l1.sequence()
  const sentAt = rt.clock.now()
  let copy = known?.held
  let reply = await rt.store.lookup(key, known ? { ...request, ...known.about } : request)
  for (let attempt = 0; ; attempt++) {
    const read = readReply(rt, key, reply, copy, sentAt)
    // The entry is fresh for the store, but purged by subject. The store is told so, and asked
    // again.
    if (read.outdated === undefined || attempt === 2) return keep(rt, key, read.held, reply, since)
    copy = read.outdated.soft ? read.held : undefined
    const about = { outdated: read.outdated, ...(copy && { knownFence: copy.fence }) }
    reply = await rt.store.lookup(key, { ...request, ...about })
  }
}

/** The copy of this process, and what the store is told about it. */
function knownCopy(
  rt: Runtime,
  key: string,
  previous: HeldEntry | undefined,
): { held: HeldEntry | undefined; about: Partial<LookupRequest> } | undefined {
  const slot = rt.l1.get(key)
  const held = slot?.type === 'hold' ? slot.held : previous
  if (held === undefined) return undefined
  const left = afterPurges(rt, held)
  if (left === undefined) {
    return { held: undefined, about: { outdated: { fence: held.fence, soft: false } } }
  }
  const about = { knownFence: held.fence }
  if (left === held && rt.marks.judge(held.entry.made) === 'valid') return { held, about }
  return { held, about: { ...about, outdated: { fence: held.fence, soft: true } } }
}

interface Read {
  readonly held: HeldEntry | undefined
  readonly outdated?: { readonly fence: string; readonly soft: boolean } | undefined
}

/** The entry in a reply, judged by the known purges. */
function readReply(
  rt: Runtime,
  key: string,
  reply: LookupReply,
  copy: HeldEntry | undefined,
  sentAt: number,
): Read {
  const stored = 'stored' in reply ? reply.stored : undefined
  if (stored === undefined) return { held: undefined }
  const { fence } = stored
  const held = heldOf(rt, key, stored, copy, sentAt)
  const left = held && afterPurges(rt, held)
  if (reply.status !== 'fresh' || (held !== undefined && left === held)) return { held: left }
  return { held: left, outdated: { fence, soft: left !== undefined } }
}

/** Puts the entry into L1, or drops the copy there. */
function keep(
  rt: Runtime,
  key: string,
  held: HeldEntry | undefined,
  reply: LookupReply,
  since: number,
): Found {
  const found = interpret(reply, held, rt.clock.now())
  if (held !== undefined) promote(rt, key, held, found, since)
  // The store has no such entry any more, so the copy must neither be served nor be asked about
  // again.
  else rt.l1.drop(key)
  return found
}

function promote(rt: Runtime, key: string, held: HeldEntry, found: Found, since: number): void {
  if (!rt.l1.isOn) return
  let quietMs = 0
  if (found.status === 'stale' && found.grant === undefined) quietMs = found.busyForMs
  if (found.status === 'failed') quietMs = found.forMs
  const slot = rt.l1.get(key)
  const ours = slot?.type === 'hold' && slot.held.fence === held.fence
  const begunAt = ours ? slot.begunAt : undefined
  const askAgainAt = rt.clock.now() + quietMs
  rt.l1.put(key, holdSlot(held, begunAt, askAgainAt), since)
}

/** Undefined if it is unreadable, or of another type than its key: then it is not ours. */
function readFrame(rt: Runtime, key: string, frame: Uint8Array): StoredEntry | undefined {
  const entry = decodeFrame(key, frame, { toKeep: rt.l1.isOn })
  return entry !== undefined && (entry.type === 'value') === isDataKey(key) ? entry : undefined
}

function heldOf(
  rt: Runtime,
  key: string,
  stored: StoredFrame,
  copy: HeldEntry | undefined,
  sentAt: number,
): HeldEntry | undefined {
  const entry = stored.frame === undefined ? copy?.entry : readFrame(rt, key, stored.frame)
  if (entry === undefined) return undefined
  // Counted from before the lookup was sent, so the copy is never fresher than in the store.
  const staleAt = sentAt + stored.freshForMs
  return {
    entry,
    fence: stored.fence,
    bornAt: sentAt - stored.ageMs,
    staleAt,
    revalidateUntil: staleAt + stored.staleWhileRevalidateMs,
    errorUntil: staleAt + stored.staleIfErrorMs,
    keepUntil: staleAt + stored.keepMs,
  }
}

/** The status in the reply, unless a purge that the store does not know makes the entry older. */
function interpret(reply: LookupReply, held: HeldEntry | undefined, now: number): Found {
  switch (reply.status) {
    case 'fresh':
      if (held !== undefined) return { status: 'fresh', held, grant: reply.grant }
      return reply.grant === undefined
        ? { status: 'busy', busyForMs: 0 }
        : { status: 'leased', grant: reply.grant, previous: undefined }
    case 'stale': {
      const { grant, busyForMs } = reply
      if (held !== undefined && freshnessAt(held, now) === 'stale') {
        return { status: 'stale', held, grant, busyForMs }
      }
      return grant === undefined
        ? { status: 'busy', busyForMs }
        : { status: 'leased', grant, previous: held }
    }
    case 'leased':
      return { status: 'leased', grant: reply.grant, previous: held }
    case 'failed':
      return { status: 'failed', failure: reply.failure, forMs: reply.forMs, held }
    default:
      return reply
  }
}
