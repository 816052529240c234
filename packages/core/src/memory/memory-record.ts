// One record of the memory store: entry, lease, the marks of a pass or a failure, and whether
// requests wait. Redis has one hash per key for it.

import { stringBytes } from '../entry/own-memory.ts'
import { isVariant } from '../ports/key.ts'
import type { Failure, Grant, LazyFrame, Lifetimes, StoredFrame } from '../ports/store.ts'

export interface MemoryRecord {
  fence: number
  token: string
  leaseUntil: number
  waiting: boolean
  passUntil: number
  retryAt: number
  failure: Failure | undefined
  entry: MemoryEntry | undefined
}

export interface MemoryEntry {
  /** Encoded when it is first asked for: L1 of the same process has the entry, and hardly ever asks. */
  frame: Uint8Array | LazyFrame
  /** The fence of the commit. */
  readonly fence: string
  readonly madeAt: number
  freshUntil: number
  readonly lifetimes: Lifetimes
}

export function newRecord(): MemoryRecord {
  return {
    fence: 0,
    token: '',
    leaseUntil: 0,
    waiting: false,
    passUntil: 0,
    retryAt: 0,
    failure: undefined,
    entry: undefined,
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
const RECORD_BYTES = 600
/** The objects of an entry and its buffer. */
const ENTRY_BYTES = 480
/** An element of the group index, and the share of its group. */
const VARIANT_BYTES = 350

/** Size of a record in memory. */
export function bytesOf(key: string, { entry, failure }: MemoryRecord): number {
  let bytes = RECORD_BYTES + stringBytes(key) + (isVariant(key) ? VARIANT_BYTES : 0)
  if (failure !== undefined) bytes += stringBytes(failure.message)
  if (entry === undefined) return bytes
  const { frame } = entry
  return bytes + ENTRY_BYTES + (isEncoded(frame) ? frame.buffer.byteLength : frame.bytes)
}

/** When everything in the record has expired. */
export function endOf({ entry, leaseUntil, passUntil, retryAt }: MemoryRecord): number {
  const entryEnd = entry === undefined ? 0 : entry.madeAt + entry.lifetimes.physicalMs
  return Math.max(leaseUntil, passUntil, retryAt, entryEnd)
}

/** The entry, unless all of its windows are over. */
export function usable({ entry }: MemoryRecord, now: number): MemoryEntry | undefined {
  if (entry === undefined) return undefined
  const { staleWhileRevalidateMs, staleIfErrorMs, keepMs } = entry.lifetimes
  const end = entry.freshUntil + Math.max(staleWhileRevalidateMs, staleIfErrorMs, keepMs)
  return now < end ? entry : undefined
}

function isEncoded(frame: Uint8Array | LazyFrame): frame is Uint8Array {
  return frame instanceof Uint8Array
}

function frameOf(entry: MemoryEntry): Uint8Array {
  const { frame } = entry
  if (isEncoded(frame)) return frame
  const encoded = frame.encode()
  entry.frame = encoded
  return encoded
}

export function storedOf(
  entry: MemoryEntry,
  now: number,
  knownFence: string | undefined,
): StoredFrame {
  const { fence, madeAt, freshUntil, lifetimes } = entry
  return {
    frame: knownFence === fence ? undefined : frameOf(entry),
    fence,
    ageMs: now - madeAt,
    freshForMs: freshUntil - now,
    staleWhileRevalidateMs: lifetimes.staleWhileRevalidateMs,
    staleIfErrorMs: lifetimes.staleIfErrorMs,
    keepMs: lifetimes.keepMs,
  }
}
