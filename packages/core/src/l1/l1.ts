// The in-process tier: an LRU bounded by bytes and entries. Refuses a write that began before a purge of
// its key was applied here, so that a slow reader cannot bring a purged value back.

import { LRUCache } from 'lru-cache'
import { codedBytes, dropCoded } from '../compress/coded-bodies.ts'
import { freshnessAt, type HeldEntry, type StoredEntry } from '../entry/entry.ts'
import { ownBytes, PAIR_BYTES, stringBytes } from '../entry/own-memory.ts'
import type { Coding } from '../http/content-coding.ts'
import { type Clock, systemClock } from '../ports/clock.ts'
import { groupOf, isVariant } from '../ports/key.ts'
import { GroupIndex } from './group-index.ts'

/**
 * Map slot, list links, the objects of an entry without their strings, numbers, the buffer of the
 * body.
 */
const OVERHEAD_BYTES = 600
/**
 * `begunAt` of an entry that another process made: before everything. A whole number, so that
 * engines keep it unboxed.
 */
const LONG_AGO = -(2 ** 30)

/** One element of an array. */
const REFERENCE_BYTES = 8
/** Bounds the remembered purges by bytes: clients choose the length of URLs. */
const PURGES_BYTES = 2 * 1024 * 1024
/** An element of the group index, and the share of its group. */
const VARIANT_BYTES = 350

export interface L1Limits {
  readonly maxBytes: number
  readonly maxEntries: number
  /** A larger entry is only in the store. */
  readonly maxEntryBytes: number
}

/**
 * A stored entry. `begunAt`: when its fill began, if that was in this process. `askAgainAt`: when
 * the store may be asked about a stale entry again. `drawAgainAt`: when a fresh one may be
 * refreshed early. `judged`: the version of the purge marks under which it was last valid.
 */
export interface L1Hold {
  readonly type: 'hold'
  held: HeldEntry
  readonly begunAt: number
  askAgainAt: number
  drawAgainAt: number
  judged: number
}

interface Purged {
  readonly last: number
  readonly hard: number
}

/**
 * Hit-for-miss: no request waits for this key before `until`. From `askAgainAt` on, this process
 * may ask the store for the lease of the one run that may be stored.
 */
export interface L1Pass {
  readonly type: 'pass'
  readonly until: number
  askAgainAt: number
}

export type L1Slot = L1Hold | L1Pass

export class L1 {
  readonly #slots: LRUCache<string, L1Slot> | undefined
  /** By group: the sequence of its last purge, and of its last hard purge. */
  readonly #purges: LRUCache<string, Purged>
  readonly #groups = new GroupIndex()
  readonly #clock: Pick<Clock, 'now'>
  #sequence = 0
  /** Purges up to this one are no longer remembered by key. */
  #forgotten = 0

  constructor(limits: L1Limits, clock: Pick<Clock, 'now'> = systemClock) {
    this.#clock = clock
    const { maxBytes, maxEntries, maxEntryBytes } = limits
    if (maxBytes > 0 && maxEntries > 0) {
      this.#slots = new LRUCache<string, L1Slot>({
        max: maxEntries,
        maxSize: maxBytes,
        maxEntrySize: Math.max(1, Math.min(maxEntryBytes, maxBytes)),
        sizeCalculation: sizeOf,
        // Also called for an entry that was too large and never stored.
        dispose: (_slot, key, reason) => {
          if (reason !== 'set') this.#groups.remove(key)
        },
      })
    }
    this.#purges = new LRUCache<string, Purged>({
      max: 10_000,
      maxSize: PURGES_BYTES,
      sizeCalculation: (_purged, key) => stringBytes(key),
      dispose: ({ last }, _key, reason) => {
        if (reason === 'evict') this.#forgotten = Math.max(this.#forgotten, last)
      },
    })
  }

  /** False: nothing is stored. */
  get isOn(): boolean {
    return this.#slots !== undefined
  }

  get size(): { entries: number; bytes: number } {
    return { entries: this.#slots?.size ?? 0, bytes: this.#slots?.calculatedSize ?? 0 }
  }

  get(key: string): L1Slot | undefined {
    return this.#slots?.get(key)
  }

  /** Take this before you read the entry that you will put. */
  sequence(): number {
    return this.#sequence
  }

  /**
   * Refused if the key was purged since `since`, or if L1 has a newer fence that is still fresh. An
   * entry without a fence was made while the store was away. It replaces any other.
   */
  put(key: string, slot: L1Slot, since: number): boolean {
    const purgedAt = this.#purges.get(groupOf(key))?.last ?? 0
    if (since < this.#forgotten || purgedAt > since) return false
    const present = this.#slots?.peek(key)
    if (present?.type === 'hold' && slot.type === 'hold' && slot.held.fence !== '') {
      const isFresh = freshnessAt(present.held, this.#clock.now()) === 'fresh'
      if (isFresh && isNewer(present.held.fence, slot.held.fence)) return false
    }
    this.#slots?.set(key, slot)
    // An entry that is too large is not stored, but the old one is gone all the same.
    if (this.#slots?.has(key)) this.#groups.add(key)
    else this.#groups.remove(key)
    return true
  }

  /**
   * Whether a hard purge may have removed the entry that was read at `since`. A soft purge leaves
   * it.
   */
  wasPurgedSince(key: string, since: number): boolean {
    const purgedAt = this.#purges.get(groupOf(key))?.hard ?? 0
    return since < this.#forgotten || purgedAt > since
  }

  holds(key: string, body: Uint8Array): boolean {
    const slot = this.#slots?.peek(key)
    return slot?.type === 'hold' && slot.held.entry.body === body
  }

  /**
   * Counts the coded form that was added to this body. Drops it again if the entry is too large
   * with it.
   */
  recount(key: string, body: Uint8Array, added: Coding): void {
    const slot = this.#slots?.peek(key)
    if (slot === undefined || !this.holds(key, body)) return
    if (sizeOf(slot, key) > (this.#slots?.maxEntrySize ?? 0)) dropCoded(body, added)
    // A copy: the cache measures an object only once.
    else this.#slots?.set(key, { ...slot })
  }

  /** Drops one entry. A lookup in flight may still put it. */
  drop(key: string): void {
    this.#slots?.delete(key)
  }

  /** Drops a key and its variants, and refuses lookups in flight. */
  purge(group: string, soft = false): void {
    this.#sequence += 1
    const hard = soft ? (this.#purges.get(group)?.hard ?? 0) : this.#sequence
    this.#purges.set(group, { last: this.#sequence, hard })
    // The key is too long to be remembered, so every lookup in flight is refused.
    if (!this.#purges.has(group)) this.#forgotten = this.#sequence
    for (const key of this.#groups.keysOf(group)) this.#slots?.delete(key)
  }

  /** Drops everything, and refuses lookups in flight. */
  flush(): void {
    this.#sequence += 1
    this.#forgotten = this.#sequence
    this.#slots?.clear()
  }
}

/** Fences are decimal: the longer is the greater, then digit by digit. An empty one is the oldest. */
export function isNewer(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length
}

export function holdSlot(copy: HeldEntry, begunAt: number = LONG_AGO, askAgainAt = 0): L1Hold {
  // One literal: objects built from parts would each get a hidden class of 300 bytes.
  const body = ownBytes(copy.entry.body)
  const isOwn = body === copy.entry.body
  const held = isOwn ? copy : { ...copy, entry: { ...copy.entry, body } }
  return { type: 'hold', held, begunAt, askAgainAt, drawAgainAt: 0, judged: -1 }
}

export function passSlot(now: number, forMs: number, quietMs = 0): L1Pass {
  return { type: 'pass', until: now + forMs, askAgainAt: now + quietMs }
}

/**
 * Size in memory, never less than measured (Node 20, `test/soak/l1-heap.test.ts`). Values parsed from
 * JSON are not held, so they are not counted.
 */
function sizeOf(slot: L1Slot, key: string): number {
  const bytes = OVERHEAD_BYTES + stringBytes(key) + (isVariant(key) ? VARIANT_BYTES : 0)
  return slot.type === 'pass' ? bytes : bytes + entryBytes(slot.held.entry)
}

/** Size of an entry without its objects. */
export function entryBytes(entry: StoredEntry): number {
  const { subjects, path = '', host = '' } = entry.made
  let bytes =
    entry.body.buffer.byteLength + codedBytes(entry.body) + stringBytes(path) + stringBytes(host)
  for (const subject of subjects) bytes += REFERENCE_BYTES + stringBytes(subject)
  if (entry.type === 'value') return bytes
  for (const text of entry.fields) bytes += REFERENCE_BYTES + stringBytes(text)
  for (const [name, value] of entry.vary) {
    bytes += REFERENCE_BYTES + PAIR_BYTES + stringBytes(name) + stringBytes(value ?? '')
  }
  return bytes
}
