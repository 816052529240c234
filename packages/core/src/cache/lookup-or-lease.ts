// Stage: one round trip that reads the entry and, if it needs filling and nobody is at it, takes the
// lease. Turns the store's relative times into moments of this process, and promotes into L1.

import { freshnessAt, type HeldEntry, type StoredEntry } from '../entry/entry.ts'
import { decodeFrame, withHead } from '../entry/frame.ts'
import { isDataKey } from '../ports/key.ts'
import type { Failure, Grant, LookupReply, LookupRequest, StoredFrame } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import { giveBack } from './give-back.ts'
import { holdSlot } from './l1.ts'
import type { Runtime } from './runtime.ts'
import { afterPurges, goodCopy } from './trust.ts'

/** The reply, with entries decoded. A frame that cannot be read is as if it were not there. */
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
  | { readonly status: 'pass'; readonly forMs: number }
  | {
      readonly status: 'failed'
      readonly failure: Failure
      readonly forMs: number
      readonly held: HeldEntry | undefined
    }

export interface Lookup {
  readonly found: Found
  /** L1's sequence before the lookup was sent. */
  readonly since: number
}

/** Undefined when the store cannot be reached; a lease that an earlier reply gave is then given back. */
export async function lookupOrLease(rt: Runtime, flight: Flight): Promise<Lookup | undefined> {
  let granted: Grant | undefined
  try {
    for (;;) {
      flight.recheck = false
      const since = rt.l1.sequence()
      const { token, policy, early } = flight
      const request = { token, leaseMs: policy.leaseMs, ...(early && { early: true }) }
      const found = await ask(rt, flight.key, request, early)
      granted = 'grant' in found ? found.grant : undefined
      // A wake-up or purge that overtook the reply: the reply may describe the past. Asking again with
      // the same token gives the same lease, if it is still ours.
      // An early refresh is not worth that.
      if (!flight.recheck || early !== undefined) return { found, since }
    }
  } catch (error) {
    if (granted !== undefined) void giveBack(rt, granted)
    rt.events.emit({ type: 'store.failed', key: flight.key, operation: 'lookup', error })
    return undefined
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

/** `copyOfCaller`: what it has where L1 has none. */
async function ask(
  rt: Runtime,
  key: string,
  request: LookupRequest,
  copyOfCaller?: HeldEntry,
): Promise<Found> {
  const known = knownCopy(rt, key, copyOfCaller)
  const since = rt.l1.sequence()
  const sentAt = rt.clock.now()
  let copy = known?.held
  let reply = await rt.store.lookup(key, { ...request, ...known?.about })
  for (let attempt = 0; ; attempt++) {
    const read = readReply(rt, key, reply, copy, sentAt)
    // What the store takes for fresh, and is not: it is told so, and asked again.
    if (read.outdated === undefined || attempt === 2) return keep(rt, key, read.held, reply, since)
    copy = read.outdated.soft ? read.held : undefined
    const about = { outdated: read.outdated, ...(copy && { knownFence: copy.fence }) }
    reply = await rt.store.lookup(key, { ...request, ...about })
  }
}

/** The copy there is, and what the store is to know of it. */
function knownCopy(
  rt: Runtime,
  key: string,
  copyOfCaller: HeldEntry | undefined,
): { held: HeldEntry | undefined; about: Partial<LookupRequest> } | undefined {
  const slot = rt.l1.get(key)
  const held = slot?.type === 'hold' ? slot.held : copyOfCaller
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

/** The entry in a reply, as the purges that are known leave it. */
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

/** Into L1, or out of it. */
function keep(
  rt: Runtime,
  key: string,
  held: HeldEntry | undefined,
  reply: LookupReply,
  since: number,
): Found {
  const found = interpret(reply, held, rt.clock.now())
  if (held !== undefined) promote(rt, key, held, found, since)
  // The store has no such entry any more: a copy of it must not be served on, nor be asked about by each request.
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

/** Undefined when it cannot be read, or is not what belongs under such a key: then it was not put there by us. */
function readFrame(rt: Runtime, key: string, frame: Uint8Array): StoredEntry | undefined {
  const entry = decodeFrame(frame, { toKeep: rt.l1.isOn })
  return entry !== undefined && (entry.type === 'value') === isDataKey(key) ? entry : undefined
}

function heldOf(
  rt: Runtime,
  key: string,
  stored: StoredFrame,
  copy: HeldEntry | undefined,
  sentAt: number,
): HeldEntry | undefined {
  const whole = stored.frame === undefined ? copy?.entry : readFrame(rt, key, stored.frame)
  const entry = whole && stored.patch !== undefined ? withHead(whole, stored.patch) : whole
  if (entry === undefined) return undefined
  // Counted from before the question was sent: never fresher than the store meant.
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

/** As the store says, but for an entry that is older by a purge than it knows. */
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
