// The in-process tier: an LRU bounded by bytes and entries. Refuses a write that began before a purge of
// its key was applied here, so that a slow reader cannot bring a purged value back.

import { LRUCache } from 'lru-cache'
import { freshnessAt, type HeldEntry, type StoredEntry } from '../entry/entry.ts'
import { ownBytes } from '../entry/own-memory.ts'
import type { Coding } from '../http/content-coding.ts'
import { type Clock, systemClock } from '../ports/clock.ts'
import { groupOf, isVariant } from '../ports/key.ts'
import { codedBytes, dropCoded } from './coded-bodies.ts'
import { GroupIndex } from './group-index.ts'

/** Map slot, list links, the objects of an entry without what they name, their numbers, the buffer of its body. */
const OVERHEAD_BYTES = 600
/** Not here: before everything. A whole number, as engines keep the other moments. */
const LONG_AGO = -(2 ** 30)

/** A place in an array, and an array of a name and a value. */
const REFERENCE_BYTES = 8
const PAIR_BYTES = 64
/** Of all keys whose purge is remembered: how long a URL is, is the client's. */
const PURGES_BYTES = 2 * 1024 * 1024
/** Its place in the index of its group, and that group's. */
const VARIANT_BYTES = 350

export interface L1Limits {
  readonly maxBytes: number
  readonly maxEntries: number
  /** An entry larger than this stays in the store only. */
  readonly maxEntryBytes: number
}

/**
 * `hold`: an entry; when its making began, if that was here; from when the store may be asked about a stale one again, and from when
 * a fresh one may be refreshed early; and the version of the purge marks under which it was last found good.
 */
export interface L1Hold {
  readonly type: 'hold'
  held: HeldEntry
  readonly begunAt: number
  askAgainAt: number
  drawAgainAt: number
  judged: number
}

export type L1Slot = L1Hold | { readonly type: 'pass'; readonly until: number }

export class L1 {
  readonly #slots: LRUCache<string, L1Slot> | undefined
  readonly #purges: LRUCache<string, number>
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
        // An entry too large to be taken comes here too, without having been in.
        dispose: (_slot, key, reason) => {
          if (reason !== 'set') this.#groups.remove(key)
        },
      })
    }
    this.#purges = new LRUCache<string, number>({
      max: 10_000,
      maxSize: PURGES_BYTES,
      sizeCalculation: (_sequence, key) => stringBytes(key),
      dispose: (sequence, _key, reason) => {
        if (reason === 'evict') this.#forgotten = Math.max(this.#forgotten, sequence)
      },
    })
  }

  /** Otherwise nothing is kept. */
  get isOn(): boolean {
    return this.#slots !== undefined
  }

  get size(): { entries: number; bytes: number } {
    return { entries: this.#slots?.size ?? 0, bytes: this.#slots?.calculatedSize ?? 0 }
  }

  get(key: string): L1Slot | undefined {
    return this.#slots?.get(key)
  }

  /** Take this before reading what will be put. */
  sequence(): number {
    return this.#sequence
  }

  /**
   * Refused when the key was purged since `since`, or when a newer fence is here and still fresh. An entry
   * without a fence was made while the store was away; it replaces what is here.
   */
  put(key: string, slot: L1Slot, since: number): boolean {
    const purgedAt = this.#purges.get(groupOf(key)) ?? 0
    if (since < this.#forgotten || purgedAt > since) return false
    const present = this.#slots?.peek(key)
    if (present?.type === 'hold' && slot.type === 'hold' && slot.held.fence !== '') {
      const isFresh = freshnessAt(present.held, this.#clock.now()) === 'fresh'
      if (isFresh && isNewer(present.held.fence, slot.held.fence)) return false
    }
    this.#slots?.set(key, slot)
    // One that is too large is not taken, and replaces what was there all the same.
    if (this.#slots?.has(key)) this.#groups.add(key)
    else this.#groups.remove(key)
    return true
  }

  holds(key: string, body: Uint8Array): boolean {
    const slot = this.#slots?.peek(key)
    return slot?.type === 'hold' && slot.held.entry.body === body
  }

  /** This form is now kept beside this body. It goes again, if the entry is too large with it. */
  recount(key: string, body: Uint8Array, added: Coding): void {
    const slot = this.#slots?.peek(key)
    if (slot === undefined || !this.holds(key, body)) return
    if (sizeOf(slot, key) > (this.#slots?.maxEntrySize ?? 0)) dropCoded(body, added)
    // Of one that it has already it does not ask the size.
    else this.#slots?.set(key, { ...slot })
  }

  /** Forgets one entry; what is being read of it now may still be put. */
  drop(key: string): void {
    this.#slots?.delete(key)
  }

  /** Forgets a key and its variants, and refuses what was read of them before. */
  purge(group: string): void {
    this.#sequence += 1
    this.#purges.set(group, this.#sequence)
    // One that is too long to be remembered is about everything that is being read now.
    if (!this.#purges.has(group)) this.#forgotten = this.#sequence
    for (const key of this.#groups.keysOf(group)) this.#slots?.delete(key)
  }

  /** Forgets everything, and refuses what is being read now. */
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
  // In one literal: put together from parts, each would have a hidden class of its own, of 300 bytes.
  const body = ownBytes(copy.entry.body)
  const isOwn = body === copy.entry.body
  const held = isOwn ? copy : { ...copy, entry: { ...copy.entry, body } }
  return { type: 'hold', held, begunAt, askAgainAt, drawAgainAt: 0, judged: -1 }
}

/**
 * What it takes in memory, never less than measured (Node 20, `test/l1-heap.test.ts`): JSON read from a value is not held, and
 * so not counted.
 */
function sizeOf(slot: L1Slot, key: string): number {
  const bytes = OVERHEAD_BYTES + stringBytes(key) + (isVariant(key) ? VARIANT_BYTES : 0)
  return slot.type === 'pass' ? bytes : bytes + entryBytes(slot.held.entry)
}

function entryBytes(entry: StoredEntry): number {
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

/** One byte a character, or two if one of them is beyond Latin-1; a head, and rounded up to words. */
function stringBytes(text: string): number {
  return 24 + (/[^\0-\xff]/.test(text) ? 2 : 1) * text.length
}
