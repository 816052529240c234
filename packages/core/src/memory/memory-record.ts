// One record of the memory store: entry or hit-for-miss marker, lease, failure, and whether
// requests wait. In Redis, each record is one hash. The entry is an object in a slot, which L1
// reads and updates.

import type { HeldEntry } from '../entry/entry.ts'
import { stringBytes } from '../entry/own-memory.ts'
import { entryBytes, type L1Item } from '../l1/l1.ts'
import { isVariant } from '../ports/key.ts'
import type { Failure, Grant, StoredFrame } from '../ports/store.ts'

export interface MemoryRecord {
  fence: number
  token: string
  leaseUntil: number
  waiting: boolean
  retryAt: number
  failure: Failure | undefined
  slot: L1Item | undefined
}

export function newRecord(): MemoryRecord {
  return {
    fence: 0,
    token: '',
    leaseUntil: 0,
    waiting: false,
    retryAt: 0,
    failure: undefined,
    slot: undefined,
  }
}

/** Drops the failure, but not the hit-for-miss marker. */
export function clearFailure(record: MemoryRecord): void {
  record.retryAt = 0
  record.failure = undefined
}

export function grantOf(key: string, record: MemoryRecord): Grant {
  return { key, token: record.token, fence: String(record.fence) }
}

export function isGrantOf(record: MemoryRecord | undefined, { fence, token }: Grant): boolean {
  return record !== undefined && String(record.fence) === fence && record.token === token
}

/** Memory of a record's objects, measured by `test/soak/heap.test.ts`. */
const RECORD_BYTES = 350
/** Memory of an entry's objects without their strings and the bytes of the body. */
const ENTRY_BYTES = 380
/** Memory of a variant in the index of vary groups, with its share of the group. */
const VARIANT_BYTES = 350

/** Size of a record in memory. */
export function bytesOf(record: MemoryRecord, key: string): number {
  const { failure } = record
  const held = heldIn(record)
  let bytes = RECORD_BYTES + stringBytes(key) + (isVariant(key) ? VARIANT_BYTES : 0)
  if (failure !== undefined) bytes += stringBytes(failure.message)
  return held === undefined ? bytes : bytes + ENTRY_BYTES + entryBytes(held.entry)
}

/** The moment at which all parts of the record have expired. */
export function endOf(record: MemoryRecord): number {
  const held = heldIn(record)
  const entryEnd = held === undefined ? 0 : endOfEntry(held)
  return Math.max(record.leaseUntil, passUntil(record), record.retryAt, entryEnd)
}

function endOfEntry({ staleAt, revalidateUntil, errorUntil, keepUntil }: HeldEntry): number {
  return Math.max(staleAt, revalidateUntil, errorUntil, keepUntil)
}

export function heldIn({ slot }: MemoryRecord): HeldEntry | undefined {
  return slot?.type === 'copy' ? slot.held : undefined
}

/** The moment at which hit-for-miss ends, or 0. */
export function passUntil({ slot }: MemoryRecord): number {
  return slot?.type === 'marker' ? slot.until : 0
}

/** The entry, unless it is neither fresh nor in a stale window. */
export function usable(record: MemoryRecord, now: number): HeldEntry | undefined {
  const held = heldIn(record)
  return held !== undefined && now < endOfEntry(held) ? held : undefined
}

export function storedFrameOf(
  { entry, fence, bornAt, staleAt, revalidateUntil, errorUntil, keepUntil }: HeldEntry,
  now: number,
  knownFence: string | undefined,
): StoredFrame {
  return {
    frame: knownFence === fence ? undefined : entry.body,
    fence,
    ageMs: now - bornAt,
    freshForMs: staleAt - now,
    staleWhileRevalidateMs: revalidateUntil - staleAt,
    staleIfErrorMs: errorUntil - staleAt,
    keepMs: keepUntil - staleAt,
  }
}
