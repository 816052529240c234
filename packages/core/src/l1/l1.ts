// L1: the copies of entries in this process, in an LRU map. L1 refuses a copy whose lookup or fill
// began before a purge of its key, so that no slow lookup brings a purged entry back.

import { LRUCache } from 'lru-cache'
import {
  type HeldEntry,
  onlyForErrors,
  ownBytes,
  PAIR_BYTES,
  staleFrom,
  stringBytes,
} from '../entry/entry.ts'
import { type Clock, systemClock } from '../ports/clock.ts'
import { groupOf, isVariant } from '../ports/key.ts'
import type { Failure } from '../ports/store.ts'

/** Bytes of an entry without its strings and its body: objects, numbers, map and list links. */
const OVERHEAD_BYTES = 600
/**
 * `begunAt` of an entry that another process filled. It is earlier than every other time. It is a
 * small integer and not -Infinity, which V8 would allocate on the heap.
 */
const LONG_AGO = -(2 ** 30)

/** Bytes of one array element. */
const REFERENCE_BYTES = 8
/** Limit of the remembered purges, in bytes. Clients choose the length of URLs and so of keys. */
const PURGES_BYTES = 2 * 1024 * 1024
/** Bytes of a variant in the index of vary groups (a key and all of its variants). */
const VARIANT_BYTES = 350

export interface L1Limits {
  readonly maxBytes: number
  readonly maxEntries: number
  /** Larger entries have no copy in L1, unless they are too large for the store as well. */
  readonly maxEntryBytes: number
}

/** The copy of an entry, with the times and checks that only this process needs. */
export interface L1Copy extends Failed {
  readonly type: 'copy'
  held: HeldEntry
  /** Start of the fill, if it was in this process. */
  readonly begunAt: number
  /** If the copy is stale: time from which this process may look it up in the store again. */
  nextLookupAt: number
  /** Time of the first response after this entry that could not be shared. */
  passedAt?: number | undefined
  /** Digest of the request whose refresh failed. Another request may refresh before that time. */
  failedDigest?: string | undefined
  /** `PurgeMarks.version` at which the copy was last found valid. */
  validAtVersion: number
}

/** The last purges of a key and its variants. Each purge in this process gets a number. */
interface Purged {
  /** Number of the last purge. */
  readonly last: number
  /** Number of the last hard purge. 0: none. */
  readonly hard: number
}

/**
 * A hit-for-miss marker. Until `until`, requests of its key do not wait for each other. From
 * `nextLookupAt` on, this process may request the lease for one of their runs.
 */
export interface L1Marker extends Failed {
  readonly type: 'marker'
  readonly until: number
  nextLookupAt: number
}

/** The value of a key in L1: a copy or a hit-for-miss marker. */
export type L1Item = L1Copy | L1Marker

/**
 * Without a store: the failure of the last fill, until when it is shared. A marker with a failure
 * is no hit-for-miss marker.
 */
interface Failed {
  failure?: Failure | undefined
  failedUntil?: number | undefined
}

export class L1 {
  readonly #items: LRUCache<string, L1Item> | undefined
  /** The keys of variants, by vary group, so that a purge of a group finds them. */
  readonly #variants = new Map<string, Set<string>>()
  /** Recent purges, by vary group. */
  readonly #purges: LRUCache<string, Purged>
  readonly #clock: Pick<Clock, 'now'>
  readonly #maxEntryBytes: number
  readonly #isOnlyTier: boolean
  /** Number of the last purge. Get it before a lookup or fill, and pass it to `put`. */
  sequence = 0
  /** `#purges` may lack purges up to this number. For safety, all keys count as purged up to it. */
  #forgotten = 0

  /** `isOnlyTier`: the process has no store, so the copies are the entries. */
  constructor(limits: L1Limits, clock: Pick<Clock, 'now'> = systemClock, isOnlyTier = false) {
    this.#clock = clock
    this.#isOnlyTier = isOnlyTier
    this.#maxEntryBytes = limits.maxEntryBytes
    const { maxBytes, maxEntries } = limits
    if (maxBytes > 0 && maxEntries > 0)
      this.#items = new LRUCache<string, L1Item>({
        ...(Number.isFinite(maxEntries) && { max: maxEntries }),
        maxSize: maxBytes,
        maxEntrySize: maxBytes,
        // lru-cache also calls this for an item that was too large and never stored.
        dispose: (_item, key, reason) => {
          if (reason !== 'set') this.#forgetVariant(key)
        },
      })
    this.#purges = new LRUCache<string, Purged>({
      max: 10_000,
      maxSize: PURGES_BYTES,
      sizeCalculation: (_purged, key) => stringBytes(key),
      dispose: ({ last }, _key, reason) => {
        if (reason === 'evict') this.#forgotten = Math.max(this.#forgotten, last)
      },
    })
  }

  /** False if the limits allow no copies at all. */
  get isOn(): boolean {
    return this.#items !== undefined
  }

  get size(): { entries: number; bytes: number } {
    return { entries: this.#items?.size ?? 0, bytes: this.#items?.calculatedSize ?? 0 }
  }

  /** Limit of `size.bytes`. */
  get maxBytes(): number {
    return this.#items?.maxSize ?? 0
  }

  get(key: string): L1Item | undefined {
    return this.#items?.get(key)
  }

  /** Like `get`, for operators: the item does not count as used. */
  peek(key: string): L1Item | undefined {
    return this.#items?.peek(key)
  }

  keys(): Iterable<string> {
    return this.#items?.keys() ?? []
  }

  /** The plain key of a vary group, and the keys of its variants. */
  keysOf(group: string): readonly string[] {
    return [group, ...(this.#variants.get(group) ?? [])]
  }

  /** Whether L1 has room for this item. */
  fits(key: string, item: L1Item): boolean {
    return sizeOf(item, key) <= this.#maxEntryBytes
  }

  /**
   * Stores a copy or a marker. Returns false if the key was purged after `since`, or if L1 has a
   * fresh copy with a newer fence. An entry without a fence was filled while the store was
   * unavailable. It replaces any other. `isOnly`: the store has no room for the entry, so only the
   * limit of L1 as a whole applies to its size.
   */
  put(key: string, item: L1Item, since: number, isOnly = false): boolean {
    if (this.isPurgedSince(key, since)) return false
    const present = this.#items?.get(key)
    if (present?.type === 'copy' && item.type === 'copy' && item.held.fence !== '') {
      const isFresh = this.#clock.now() < present.held.staleAt
      if (isFresh && isNewer(present.held.fence, item.held.fence)) return false
    }
    const bytes = sizeOf(item, key)
    if (isOnly || bytes <= this.#maxEntryBytes) this.#set(key, item, bytes)
    else this.drop(key)
    return true
  }

  /**
   * Without a store: shares a failure for `forMs`, beside the copy if there is one. Not after a
   * purge of the key, like `put`.
   */
  fail(key: string, failure: Failure, forMs: number, since: number): void {
    if (this.isPurgedSince(key, since)) return
    const now = this.#clock.now()
    const item = this.#items?.get(key)
    const failed = { failure, failedUntil: now + forMs }
    if (item?.type === 'copy') Object.assign(item, failed)
    else this.#set(key, { ...newMarker(now, forMs, forMs), ...failed })
  }

  /**
   * After the first response that could not be shared: lets a copy with this fence replace errors
   * only. Returns false if there is none, or if the key was purged after `since`.
   */
  keepForErrors(key: string, fence: string | undefined, since: number): boolean {
    const item = this.#items?.get(key)
    if (item?.type !== 'copy' || item.held.fence !== fence || this.isPurgedSince(key, since))
      return false
    const now = this.#clock.now()
    Object.assign(item, { held: onlyForErrors(item.held, now), passedAt: now })
    return true
  }

  /**
   * Whether L1 remembers a response that could not be shared. A marker does for `forMs` after its
   * end.
   */
  hasPassed(key: string, forMs: number): boolean {
    const item = this.#items?.get(key)
    if (item?.type === 'copy') return item.passedAt !== undefined
    const isMarker = item?.type === 'marker' && item.failure === undefined
    return isMarker && this.#clock.now() < item.until + forMs
  }

  /** Whether a hard or soft purge after `since`, a value of `sequence`, covers the key. */
  isPurgedSince(key: string, since: number): boolean {
    return since < this.#forgotten || (this.#purges.get(groupOf(key))?.last ?? 0) > since
  }

  /** Whether a hard purge after `since`, a value of `sequence`, may have removed the entry. */
  wasPurgedSince(key: string, since: number): boolean {
    const purgedAt = this.#purges.get(groupOf(key))?.hard ?? 0
    return since < this.#forgotten || purgedAt > since
  }

  /** Drops one copy. A pending lookup may still put it again. */
  drop(key: string): void {
    this.#items?.delete(key)
  }

  /** Drops a key and its variants. A later `put` from a pending lookup or fill is refused. */
  purge(group: string, soft = false): void {
    this.sequence += 1
    const hard = soft ? (this.#purges.get(group)?.hard ?? 0) : this.sequence
    this.#purges.set(group, { last: this.sequence, hard })
    // The key is too long for `#purges`, so pending lookups and fills of all keys are refused.
    if (!this.#purges.has(group)) this.#forgotten = this.sequence
    // A store would keep the entries and make them stale. Failures and hit-for-miss end.
    for (const key of this.keysOf(group)) {
      const item = soft && this.#isOnlyTier ? this.peek(key) : undefined
      if (item?.type !== 'copy') this.drop(key)
      else {
        item.held = staleFrom(item.held, this.#clock.now())
        item.nextLookupAt = 0
        item.failure = undefined
        item.passedAt = undefined
      }
    }
  }

  /** Drops everything. A later `put` from a pending lookup or fill is refused. */
  flush(): void {
    this.sequence += 1
    this.#forgotten = this.sequence
    this.#items?.clear()
  }

  #set(key: string, item: L1Item, size: number = sizeOf(item, key)): void {
    this.#items?.set(key, item, { size })
    if (!isVariant(key)) return
    // An item that is too large is not stored, but it does remove the old one.
    if (!this.#items?.has(key)) return this.#forgetVariant(key)
    const group = groupOf(key)
    const keys = this.#variants.get(group)
    if (keys === undefined) this.#variants.set(group, new Set([key]))
    else keys.add(key)
  }

  #forgetVariant(key: string): void {
    const group = groupOf(key)
    const keys = group === key ? undefined : this.#variants.get(group)
    if (keys?.delete(key) && keys.size === 0) this.#variants.delete(group)
  }
}

/**
 * Whether fence `a` is greater than `b`. Fences are decimal numbers as strings. Empty is the least.
 */
export function isNewer(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length
}

export function newCopy(copy: HeldEntry, begunAt: number = LONG_AGO, nextLookupAt = 0): L1Copy {
  // One literal, because an object built step by step would need 300 bytes for a hidden class.
  const body = ownBytes(copy.entry.body)
  const isOwn = body === copy.entry.body
  const held = isOwn ? copy : { ...copy, entry: { ...copy.entry, body } }
  return { type: 'copy', held, begunAt, nextLookupAt, validAtVersion: -1 }
}

export function newMarker(now: number, forMs: number, delayMs = 0): L1Marker {
  return { type: 'marker', until: now + forMs, nextLookupAt: now + delayMs }
}

/**
 * Size in bytes of heap: an upper estimate, as `test/soak/heap.test.ts` measures on Node 20.
 * Parsed values are not counted, because L1 references them only weakly.
 */
export function sizeOf(item: L1Item, key: string): number {
  let bytes = OVERHEAD_BYTES + stringBytes(key) + (isVariant(key) ? VARIANT_BYTES : 0)
  if (item.type === 'marker') return bytes
  const { entry } = item.held
  const { subjects, path = '', host = '' } = entry.provenance
  bytes += entry.body.buffer.byteLength + stringBytes(path) + stringBytes(host)
  for (const subject of subjects) bytes += REFERENCE_BYTES + stringBytes(subject)
  if (entry.type === 'value') return bytes
  for (const text of entry.fields) bytes += REFERENCE_BYTES + stringBytes(text)
  for (const [name, value] of entry.vary) {
    bytes += REFERENCE_BYTES + PAIR_BYTES + stringBytes(name) + stringBytes(value ?? '')
  }
  return bytes
}
