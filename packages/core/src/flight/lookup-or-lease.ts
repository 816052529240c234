// One round trip that reads the entry and, if a fill is needed, takes the lease. The store's
// relative times become times on the clock of this process, and the entry is copied into L1.

import { freshnessAt, type HeldEntry, type StoredEntry } from '../entry/entry.ts'
import { decodeFrame } from '../entry/frame.ts'
import { newCopy } from '../l1/l1.ts'
import { afterPurges, validCopy } from '../l1/validity.ts'
import { isDataKey } from '../ports/key.ts'
import type { Failure, Grant, LookupReply, LookupRequest, StoredFrame } from '../ports/store.ts'
import { lookupTracing } from '../tracing.ts'
import type { Flight } from './flight.ts'
import { forget } from './hints.ts'
import { releaseUnusedLease } from './release-lease.ts'
import type { Caller, ReadEntry } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { traceRead } from './traced-lookup.ts'

/** The reply with its entry decoded. An entry that cannot be decoded counts as absent. */
export type Found =
  | { readonly status: 'fresh'; readonly held: HeldEntry }
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
      /** Whether the lookup told the store that its entry was hard-purged. */
      readonly isPurged?: boolean
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
  /** Undefined if the store is unavailable. */
  readonly found: Found | undefined
  /** Sequence number of L1's last purge before the lookup was sent. */
  readonly since: number
}

/** A reply of one status, with the sequence number of L1's last purge before the lookup. */
export type FoundAs<S extends Found['status']> = Extract<Found, { status: S }> &
  Pick<Lookup, 'since'>

/**
 * Sends lookups until a reply is not outdated. If a repeated lookup fails, the lease from the
 * earlier reply is released.
 */
export async function lookupOrLease(
  rt: Runtime,
  flight: Flight,
  refresher?: Caller | undefined,
): Promise<Lookup> {
  let granted: Grant | undefined
  for (;;) {
    flight.beginLookup(rt)
    const since = rt.l1.sequence()
    try {
      const found = await sendLookup(rt, flight.key, termsOf(rt, flight, refresher))
      granted = 'grant' in found ? found.grant : undefined
      // A wake-up or purge came before the reply, which may therefore be outdated. A second lookup
      // with the same token gets the same lease, if this process still holds it.
      if (flight.isOutdated && flight.waiters.size > 0) continue
      flight.endLookup(found.status === 'pass')
      return { found, since }
    } catch (error) {
      if (granted !== undefined) void releaseUnusedLease(rt, flight, granted)
      rt.events.emit({ type: 'store.failed', key: flight.key, operation: 'lookup', error })
      flight.endLookup(flight.isHitForMiss)
      return { found: undefined, since }
    }
  }
}

/** The parameters of a lookup, except those that describe the copy in this process. */
type LookupTerms = Pick<LookupRequest, 'token' | 'leaseMs' | 'like' | 'onQueued'>

function termsOf(
  rt: Runtime,
  { token, policy, failedDigest, waiters }: Flight,
  refresher: Caller | undefined,
): LookupTerms {
  const like = failedDigest && (waiters.first()?.caller ?? refresher)?.requestDigest?.()
  const onQueued = () => waiters.startClocks(rt)
  return { token, leaseMs: policy.leaseMs, like, onQueued }
}

/** A lookup that only reads. */
const READ_ONLY: LookupTerms = { token: '', leaseMs: 0 }

/** Reads without taking the lease: for HEAD, `only-if-cached` and `get`, which never fill. */
export function readWithoutLease(rt: Runtime, key: string): Promise<ReadEntry | undefined> {
  return lookupTracing.hasSubscribers ? traceRead(key, () => read(rt, key)) : read(rt, key)
}

async function read(rt: Runtime, key: string): Promise<ReadEntry | undefined> {
  const item = rt.l1.get(key)
  const copy = item?.type === 'copy' ? validCopy(rt, item) : undefined
  if (copy !== undefined && freshnessAt(copy, rt.clock.now()) === 'fresh') {
    return { held: copy, stale: false, from: 'l1' }
  }
  const found = await sendLookup(rt, key, READ_ONLY)
  if (found.status !== 'fresh' && found.status !== 'stale') return undefined
  return { held: found.held, stale: found.status === 'stale', from: 'l2' }
}

/** Counts a hit on an entry that was read without a lease. */
export function countRead(rt: Runtime, key: string, { held, stale, from }: ReadEntry): void {
  rt.events.hit(key, from, stale)
  rt.counts.hit(held, stale)
}

/**
 * Drops an entry from L1 and the store, because the code that read the entry cannot parse it. A
 * newer entry in the store stays.
 */
export async function dropUnreadable(
  rt: Runtime,
  key: string,
  { fence }: HeldEntry,
): Promise<void> {
  forget(rt, key)
  try {
    await rt.store.lookup(key, { ...READ_ONLY, outdated: { fence, soft: false } })
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key, operation: 'lookup', error })
  }
}

/** Sends one lookup, and repeats it if the reply has an entry that was purged. */
async function sendLookup(rt: Runtime, key: string, terms: LookupTerms): Promise<Found> {
  let { held: copy, knownFence, outdated } = knownCopy(rt, key)
  const since = rt.l1.sequence()
  const sentAt = rt.clock.now()
  for (let attempt = 0; ; attempt++) {
    const reply = await rt.store.lookup(key, { ...terms, knownFence, outdated })
    const checked = checkReply(rt, key, reply, copy, sentAt)
    if (checked.outdated === undefined || attempt === 2) {
      const found = updateL1(rt, key, checked.held, reply, since)
      const isPurged = outdated !== undefined && !outdated.soft
      return found.status === 'leased' && isPurged ? { ...found, isPurged } : found
    }
    // The store calls the entry fresh, but this process knows a purge that covers it. The next
    // lookup tells the store that the entry is outdated.
    outdated = checked.outdated
    copy = outdated.soft ? checked.held : undefined
    knownFence = copy?.fence
  }
}

/** The copy in this process, and the parts of the lookup that describe it. */
interface KnownCopy extends Pick<LookupRequest, 'knownFence' | 'outdated'> {
  readonly held: HeldEntry | undefined
}

const NO_COPY: KnownCopy = { held: undefined, knownFence: undefined, outdated: undefined }

function knownCopy(rt: Runtime, key: string): KnownCopy {
  const item = rt.l1.get(key)
  if (item?.type !== 'copy') return NO_COPY
  const { held } = item
  const { fence } = held
  const usable = afterPurges(rt, held)
  if (usable === undefined) return { ...NO_COPY, outdated: { fence, soft: false } }
  const isValid = usable === held && rt.marks.judge(held.entry.provenance) === 'valid'
  return { held, knownFence: fence, outdated: isValid ? undefined : { fence, soft: true } }
}

/** The entry of a reply. `outdated`: the store does not know yet that the entry was purged. */
interface CheckedReply {
  readonly held: HeldEntry | undefined
  readonly outdated?: { readonly fence: string; readonly soft: boolean } | undefined
}

/** Checks the entry in a reply against all purges that this process knows. */
function checkReply(
  rt: Runtime,
  key: string,
  reply: LookupReply,
  copy: HeldEntry | undefined,
  sentAt: number,
): CheckedReply {
  const stored = 'stored' in reply ? reply.stored : undefined
  if (stored === undefined) return { held: undefined }
  const { fence } = stored
  const held = heldEntryOf(rt, key, stored, copy, sentAt)
  const usable = held && afterPurges(rt, held)
  if (reply.status !== 'fresh' || (held !== undefined && usable === held)) return { held: usable }
  return { held: usable, outdated: { fence, soft: usable !== undefined } }
}

/** Puts the entry into L1, or drops the copy there. Returns the reply with the entry. */
function updateL1(
  rt: Runtime,
  key: string,
  held: HeldEntry | undefined,
  reply: LookupReply,
  since: number,
): Found {
  const found = interpret(reply, held, rt.clock.now())
  if (held !== undefined) promote(rt, key, held, found, since)
  // The store no longer has the entry. So the copy in L1 must not be served, and the next lookup
  // must not contain its fence.
  else rt.l1.drop(key)
  return found
}

function promote(rt: Runtime, key: string, held: HeldEntry, found: Found, since: number): void {
  if (!rt.l1.isOn) return
  let delayMs = 0
  if (found.status === 'stale' && found.grant === undefined) delayMs = found.busyForMs
  if (found.status === 'failed') delayMs = found.forMs
  const item = rt.l1.get(key)
  const isSameEntry = item?.type === 'copy' && item.held.fence === held.fence
  const begunAt = isSameEntry ? item.begunAt : undefined
  const copy = newCopy(held, begunAt, rt.clock.now() + delayMs)
  if (found.status === 'failed') copy.failedDigest = found.failure.like
  rt.l1.put(key, copy, since)
}

/** The entry in a frame. Undefined if it cannot be parsed, or if its type does not fit the key. */
function parseFrame(rt: Runtime, key: string, frame: Uint8Array): StoredEntry | undefined {
  const entry = decodeFrame(key, frame, { toKeep: rt.l1.isOn })
  return entry !== undefined && (entry.type === 'value') === isDataKey(key) ? entry : undefined
}

function heldEntryOf(
  rt: Runtime,
  key: string,
  stored: StoredFrame,
  copy: HeldEntry | undefined,
  sentAt: number,
): HeldEntry | undefined {
  const entry = stored.frame === undefined ? copy?.entry : parseFrame(rt, key, stored.frame)
  if (entry === undefined) return undefined
  // Times count from before the lookup was sent, so the copy never looks fresher than in the store.
  const staleAt = sentAt + stored.freshForMs
  return {
    entry,
    fence: stored.fence,
    bornAt: sentAt - stored.ageMs,
    staleAt,
    revalidateUntil: staleAt + stored.staleWhileRevalidateMs,
    errorUntil: staleAt + stored.staleIfErrorMs,
    keepUntil: staleAt + stored.keepMs,
    counts: rt.counts.of(key, entry),
  }
}

/**
 * The reply with its entry. If the entry was purged or cannot be parsed, `fresh` and `stale` become
 * a miss.
 */
function interpret(reply: LookupReply, held: HeldEntry | undefined, now: number): Found {
  switch (reply.status) {
    case 'fresh':
      return held === undefined ? { status: 'busy', busyForMs: 0 } : { status: 'fresh', held }
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
