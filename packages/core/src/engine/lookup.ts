// One round trip that reads the entry and, if a fill is needed, takes the lease. The store's
// relative times become times on the clock of this process, and the entry is copied into L1.

import { routeOf } from '../entry/counts.ts'
import { endOfEntry, type HeldEntry, heldEntry, type StoredEntry } from '../entry/entry.ts'
import { decodeFrame } from '../entry/frame.ts'
import { mayHaveRun } from '../errors.ts'
import { newCopy } from '../l1/l1.ts'
import { afterPurges, validCopy } from '../l1/purges.ts'
import { releaseLease } from '../lease/release.ts'
import { ANY_FENCE } from '../ports/grant.ts'
import { isDataKey } from '../ports/key.ts'
import type {
  Direct,
  Grant,
  LookupReply,
  LookupRequest,
  Receiver,
  StampedeStore,
  StoredFrame,
} from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { traceRead } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import type { Flight } from './flight.ts'
import { forget } from './messages.ts'
import type { Found, ReadEntry } from './types.ts'

/**
 * Sends lookups until a reply is not outdated, and calls `flight.act`. `granted` is the lease from
 * an earlier reply. If the next lookup fails, it is released.
 */
export function lookUp(rt: Runtime, flight: Flight, granted?: Grant): void {
  flight.beginLookup()
  if (rt.records === undefined) flight.act(findInL1(rt, flight), rt.l1.sequence)
  else new Lookup(rt, flight.key, flight, granted).send()
}

/**
 * Releases a lease under which no fill has begun. The flight gets a new token. With the old token,
 * the next lookup of the flight could get this lease again. A delayed release would then end the
 * lease during the fill.
 */
export function releaseUnused(
  rt: Runtime,
  flight: Flight,
  grant: Grant,
): Promise<void> | undefined {
  flight.renewToken()
  return releaseLease(rt, grant)
}

/** The reply that a store would give to a process that is alone. The flight has the only lease. */
function findInL1(rt: Runtime, flight: Flight): Found {
  const { key } = flight
  const item = rt.l1.get(key)
  const now = rt.clock.now()
  const valid = item?.type === 'copy' ? validCopy(rt, item, now) : undefined
  const held = valid !== undefined && now < endOfEntry(valid) ? valid : undefined
  if (held && now < held.staleAt) return { status: 'fresh', stored: held }
  const { failure, failedUntil = 0 } = item ?? {}
  const { like } = flight
  if (failure && now < failedUntil && (!like || (failure.like ?? like) === like)) {
    return { status: 'failed', failure, forMs: failedUntil - now, stored: held }
  }
  const grant = { key, token: '', fence: rt.fences.next() }
  if (item?.type === 'marker' && failure === undefined && now < item.until) {
    return { status: 'pass', forMs: item.until - now, grant }
  }
  if (held && now < held.revalidateUntil)
    return { status: 'stale', stored: held, grant, busyForMs: 0 }
  const isPurged = item?.type === 'copy' && valid === undefined
  return { status: 'leased', grant, stored: held, isPurged }
}

/** Reads without taking the lease: for HEAD, `only-if-cached` and `get`, which never fill. */
export function readWithoutLease(rt: Runtime, key: string): Promise<ReadEntry | undefined> {
  const reading = () => new Promise<Read>((resolve, reject) => read(rt, key, { resolve, reject }))
  return lookupTracing.hasSubscribers ? traceRead(key, reading) : reading()
}

/** As `readWithoutLease`, without a promise. */
export function read(rt: Runtime, key: string, reader: Receiver<Read>): void {
  const item = rt.l1.get(key)
  const now = rt.clock.now()
  const held = item?.type === 'copy' ? validCopy(rt, item, now) : undefined
  const stale = held !== undefined && now >= held.staleAt
  if (held !== undefined && !stale) reader.resolve({ held, stale, from: 'l1' })
  else if (rt.records !== undefined) new Lookup(rt, key, reader).send()
  else reader.resolve(held && now < held.revalidateUntil ? { held, stale, from: 'l1' } : undefined)
}

/** Counts a hit on an entry that was read without a lease. */
export function countRead(rt: Runtime, key: string, { held, stale, from }: ReadEntry): void {
  rt.events.hit(key, from, stale)
  rt.counts.served(held, stale ? 'revalidate' : undefined)
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
    await rt.records?.lookup(key, { token: '', leaseMs: 0, outdated: { fence, soft: false } })
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key, operation: 'lookup', error })
  }
}

/** An entry that the lookup must not return: the store does not know yet that it was purged. */
type Outdated = NonNullable<LookupRequest['outdated']>

/** The result of a caller that only reads. */
export type Read = ReadEntry | undefined

/** Lookups that are sent for one reply. */
const MOST_LOOKUPS = 3

/**
 * One lookup, which is also its request. It is repeated if the reply has an entry that was purged.
 */
class Lookup implements LookupRequest, Receiver<LookupReply> {
  readonly token: string
  readonly leaseMs: number
  readonly like: string | undefined
  knownFence: string | undefined
  outdated: Outdated | undefined
  readonly #rt: Runtime
  readonly #key: string
  readonly #caller: Flight | Receiver<Read>
  readonly #granted: Grant | undefined
  readonly #since: number
  readonly #sentAt: number
  /** The copy in this process that the store need not send. */
  #copy: HeldEntry | undefined
  #sent = 0

  /** `granted`: see `lookUp`. */
  constructor(rt: Runtime, key: string, caller: Flight | Receiver<Read>, granted?: Grant) {
    const flight = 'key' in caller ? caller : undefined
    this.token = flight?.token ?? ''
    this.leaseMs = flight?.policy.leaseMs ?? 0
    this.like = flight?.like
    this.knownFence = undefined
    this.outdated = undefined
    this.#rt = rt
    this.#key = key
    this.#caller = caller
    this.#granted = granted
    this.#since = rt.l1.sequence
    this.#sentAt = rt.clock.now()
    const item = rt.l1.get(key)
    if (item?.type === 'copy') this.#know(item.held)
  }

  /** An own property, because a store may take it out of the request or copy the request. */
  readonly onQueued = (): void => {
    if ('key' in this.#caller) this.#caller.startClocks()
  }

  send(): void {
    this.#sent += 1
    this.knownFence = this.#copy?.fence
    const { records } = this.#rt
    if (records === undefined) return
    ask<[string, LookupRequest], LookupReply>(records, records.lookup, [this.#key, this], this)
  }

  /** Sends another lookup if the store calls an entry fresh that this process knows as purged. */
  resolve(reply: LookupReply): void {
    let found: Found | undefined
    try {
      const stored = 'stored' in reply ? reply.stored : undefined
      const held = stored && heldEntryOf(this.#rt, this.#key, stored, this.#copy, this.#sentAt)
      const usable = held && afterPurges(this.#rt, held)
      const isPurged = reply.status === 'fresh' && (held === undefined || usable !== held)
      if (!isPurged || this.#sent === MOST_LOOKUPS) found = this.#updateL1(usable, reply)
      else {
        // The next lookup tells the store that the entry is outdated.
        this.outdated = { fence: reply.stored.fence, soft: usable !== undefined }
        this.#copy = usable
      }
    } catch (error) {
      return this.reject(error)
    }
    if (found === undefined) return this.send()
    const caller = this.#caller
    if (!('key' in caller)) {
      const { status } = found
      if (status !== 'fresh' && status !== 'stale') return caller.resolve(undefined)
      return caller.resolve({ held: found.stored, stale: status === 'stale', from: 'l2' })
    }
    // A wake-up or purge came before the reply, which may therefore be outdated. A second lookup
    // with the same token gets the same lease, if this process still holds it.
    if (!caller.isOutdated || caller.size === 0) return caller.act(found, this.#since)
    lookUp(this.#rt, caller, 'grant' in found ? found.grant : undefined)
  }

  reject(error: unknown): void {
    const caller = this.#caller
    if (!('key' in caller)) return caller.reject(error)
    const rt = this.#rt
    const key = this.#key
    const { token } = this
    // If no reply came, the store may have given the lease. Other processes would wait for its end.
    const lease = mayHaveRun(error) ? { key, token, fence: ANY_FENCE } : this.#granted
    if (lease !== undefined) void releaseUnused(rt, caller, lease)
    rt.events.emit({ type: 'store.failed', key, operation: 'lookup', error })
    caller.act(undefined, this.#since)
  }

  #know(held: HeldEntry): void {
    const { fence } = held
    const usable = afterPurges(this.#rt, held)
    const isValid = usable === held && this.#rt.marks.judge(held.entry.provenance) === 'valid'
    if (usable !== undefined) this.#copy = held
    if (!isValid) this.outdated = { fence, soft: usable !== undefined }
  }

  /** Puts the entry into L1, or drops the copy there. Returns the reply with the entry. */
  #updateL1(held: HeldEntry | undefined, reply: LookupReply): Found {
    const rt = this.#rt
    const found = interpret(reply, held, rt.clock.now())
    if (held !== undefined) promote(rt, this.#key, held, found, this.#since)
    // The store no longer has the entry. So the copy in L1 must not be served, and the next lookup
    // must not contain its fence.
    else rt.l1.drop(this.#key)
    const isPurged = this.outdated !== undefined && !this.outdated.soft
    return found.status === 'leased' && isPurged ? { ...found, isPurged } : found
  }
}

/**
 * Calls a method of the store. The receiver may get the reply in any async context, because each
 * caller keeps its own. An `AsyncResource` for each reply would be a fifth of the cost of a read.
 */
export function ask<A extends readonly unknown[], T>(
  store: StampedeStore,
  method: Direct<A, T>,
  args: A,
  receiver: Receiver<T>,
): void {
  // A store may throw in place of rejecting, for example after it was closed.
  try {
    const { direct } = method
    if (direct?.of === method) return direct.call(store, ...args, receiver)
    const reply = Reflect.apply(method, store, args)
    reply.then(
      (its) => receiver.resolve(its),
      (error) => receiver.reject(error),
    )
  } catch (error) {
    receiver.reject(error)
  }
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
  const { frame, fence, ageMs, freshForMs, ...windows } = stored
  const entry = frame === undefined ? copy?.entry : parseFrame(rt, key, frame)
  if (entry === undefined) return undefined
  // Times count from before the lookup was sent, so the copy never looks fresher than in the store.
  const counts = rt.counts.route(routeOf(key, entry))
  return heldEntry(entry, fence, freshForMs, windows, sentAt, counts, ageMs)
}

/**
 * The reply with its entry. If the entry was purged or cannot be parsed, `fresh` and `stale` become
 * a miss.
 */
function interpret(reply: LookupReply, held: HeldEntry | undefined, now: number): Found {
  switch (reply.status) {
    case 'fresh':
      return held === undefined ? { status: 'busy', busyForMs: 0 } : { ...reply, stored: held }
    case 'stale': {
      const { grant, busyForMs } = reply
      if (held !== undefined && now < held.revalidateUntil) return { ...reply, stored: held }
      if (grant !== undefined) return { status: 'leased', grant, stored: held }
      return { status: 'busy', busyForMs }
    }
    case 'leased':
      return { status: 'leased', grant: reply.grant, stored: held }
    case 'failed':
    case 'pass':
      return { ...reply, stored: held }
    default:
      return reply
  }
}
