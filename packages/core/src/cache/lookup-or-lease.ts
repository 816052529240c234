// Stage: one round trip that reads the entry and, if it needs filling and nobody is at it, takes the
// lease. Turns the store's relative times into moments of this process, and promotes into L1.

import { freshnessAt, type HeldEntry } from '../entry/entry.ts'
import { decodeFrame } from '../entry/frame.ts'
import { isDataKey } from '../ports/key.ts'
import type { Failure, Grant, LookupReply, StoredFrame } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import { giveBack } from './give-back.ts'
import type { Runtime } from './runtime.ts'

/** The reply, with entries decoded. A frame that cannot be read is as if it were not there. */
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
      readonly staleIfError: HeldEntry | undefined
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

/** Throws when the store is unavailable; a lease that an earlier reply gave is then given back. */
export async function lookupOrLease(rt: Runtime, flight: Flight): Promise<Lookup> {
  let granted: Grant | undefined
  try {
    for (;;) {
      flight.recheck = false
      const since = rt.l1.sequence()
      const found = await ask(rt, flight.key, flight.token, flight.policy.leaseMs)
      granted = 'grant' in found ? found.grant : undefined
      // A wake-up or purge that overtook the reply: the reply may describe the past. Asking again with
      // the same token gives the same lease, if it is still ours.
      if (!flight.recheck) return { found, since }
    }
  } catch (error) {
    if (granted !== undefined) void giveBack(rt, granted)
    throw error
  }
}

/** Reads without taking the lease: for HEAD, which cannot fill. */
export async function peek(rt: Runtime, key: string): Promise<HeldEntry | undefined> {
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold' && freshnessAt(slot.held, rt.clock.now()) === 'fresh') {
    rt.events.hit(key, 'l1', false)
    return slot.held
  }
  const found = await ask(rt, key, '', 0)
  if (found.status !== 'fresh' && found.status !== 'stale') return undefined
  rt.events.hit(key, 'l2', found.status === 'stale')
  return found.held
}

async function ask(rt: Runtime, key: string, token: string, leaseMs: number): Promise<Found> {
  const slot = rt.l1.get(key)
  const known = slot?.type === 'hold' ? slot.held : undefined
  const since = rt.l1.sequence()
  const sentAt = rt.clock.now()
  const request = { token, leaseMs }
  let reply = await rt.store.lookup(key, known ? { ...request, knownFence: known.fence } : request)
  let held = heldOf(key, reply, known, sentAt)
  if (held === 'unreadable') {
    const unreadableFence = (reply as { stored: StoredFrame }).stored.fence
    reply = await rt.store.lookup(key, { ...request, unreadableFence })
    held = heldOf(key, reply, undefined, sentAt)
    if (held === 'unreadable') held = undefined
  }
  const found = interpret(reply, held)
  if (held !== undefined) promote(rt, key, held, found, since)
  // The store has no such entry any more: a copy of it must not be served on, nor be asked about by each request.
  else if (known !== undefined) rt.l1.drop(key)
  return found
}

function promote(rt: Runtime, key: string, held: HeldEntry, found: Found, since: number): void {
  let quietMs = 0
  if (found.status === 'stale' && found.grant === undefined) quietMs = found.busyForMs
  if (found.status === 'failed') quietMs = found.forMs
  const checkedAt = rt.clock.now()
  const askAgainAt = checkedAt + quietMs
  const slot = rt.l1.get(key)
  if (slot?.type === 'hold' && slot.held === held) Object.assign(slot, { checkedAt, askAgainAt })
  else rt.l1.put(key, { type: 'hold', held, checkedAt, askAgainAt }, since)
}

function heldOf(
  key: string,
  reply: LookupReply,
  known: HeldEntry | undefined,
  sentAt: number,
): HeldEntry | 'unreadable' | undefined {
  const stored = 'stored' in reply ? reply.stored : undefined
  if (stored === 'same') return known
  if (stored === undefined) return undefined
  const entry = decodeFrame(stored.frame)
  // A response under a key of data, or the other way round, was not put there by us.
  if (entry === undefined || (entry.type === 'value') !== isDataKey(key)) return 'unreadable'
  // Counted from before the question was sent: never fresher than the store meant.
  const staleAt = sentAt + stored.freshForMs
  return {
    entry,
    fence: stored.fence,
    bornAt: sentAt - stored.ageMs,
    staleAt,
    revalidateUntil: staleAt + stored.staleWhileRevalidateMs,
    errorUntil: staleAt + stored.staleIfErrorMs,
  }
}

function interpret(reply: LookupReply, held: HeldEntry | undefined): Found {
  switch (reply.status) {
    case 'fresh':
      return held === undefined ? { status: 'busy', busyForMs: 0 } : { status: 'fresh', held }
    case 'stale':
      if (held !== undefined) {
        return { status: 'stale', held, grant: reply.grant, busyForMs: reply.busyForMs }
      }
      return reply.grant === undefined
        ? { status: 'busy', busyForMs: reply.busyForMs }
        : { status: 'leased', grant: reply.grant, staleIfError: undefined }
    case 'leased':
      return { status: 'leased', grant: reply.grant, staleIfError: held }
    case 'failed':
      return { status: 'failed', failure: reply.failure, forMs: reply.forMs, held }
    default:
      return reply
  }
}
