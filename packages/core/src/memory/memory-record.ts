// One record of the memory store: entry or pass, lease, failure, and whether requests wait. Redis has
// one hash per key for it. The entry is an object, in a slot that L1 reads and changes in place.

import type { HeldEntry } from '../entry/entry.ts'
import { stringBytes } from '../entry/own-memory.ts'
import { entryBytes, type L1Slot } from '../l1/l1.ts'
import { isVariant } from '../ports/key.ts'
import type { Failure, Grant, StoredFrame } from '../ports/store.ts'

export interface MemoryRecord {
  fence: number
  token: string
  leaseUntil: number
  waiting: boolean
  retryAt: number
  failure: Failure | undefined
  slot: L1Slot | undefined
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

/** Forgets a failure, but not a pass. */
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

/** Map slot, list links, the objects of a record: measured by `test/soak/heap.test.ts`. */
const RECORD_BYTES = 350
/** The objects of an entry without their strings, and the buffer of the body. */
const ENTRY_BYTES = 380
/** An element of the group index, and the share of its group. */
const VARIANT_BYTES = 350

/** Size of a record in memory. */
export function bytesOf(record: MemoryRecord, key: string): number {
  const { failure } = record
  const held = heldIn(record)
  let bytes = RECORD_BYTES + stringBytes(key) + (isVariant(key) ? VARIANT_BYTES : 0)
  if (failure !== undefined) bytes += stringBytes(failure.message)
  return held === undefined ? bytes : bytes + ENTRY_BYTES + entryBytes(held.entry)
}

/** When everything in the record has expired. */
export function endOf(record: MemoryRecord): number {
  const held = heldIn(record)
  const entryEnd = held === undefined ? 0 : endOfEntry(held)
  return Math.max(record.leaseUntil, passUntil(record), record.retryAt, entryEnd)
}

function endOfEntry({ staleAt, revalidateUntil, errorUntil, keepUntil }: HeldEntry): number {
  return Math.max(staleAt, revalidateUntil, errorUntil, keepUntil)
}

export function heldIn({ slot }: MemoryRecord): HeldEntry | undefined {
  return slot?.type === 'hold' ? slot.held : undefined
}

/** Until when the key is hit-for-miss. */
export function passUntil({ slot }: MemoryRecord): number {
  return slot?.type === 'pass' ? slot.until : 0
}

/** The entry, unless all of its windows are over. */
export function usable(record: MemoryRecord, now: number): HeldEntry | undefined {
  const held = heldIn(record)
  return held !== undefined && now < endOfEntry(held) ? held : undefined
}

export function storedOf(
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
