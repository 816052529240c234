// One record of the memory store: an entry, the lease, the marks of a pass or a failure, and who waits; as in Redis one
// hash a key.

import type { Failure, Grant, Lifetimes, StoredFrame } from '../ports/store.ts'

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
  readonly frame: Uint8Array
  /** The fence the frame was committed under, and that of the last extension. */
  readonly stored: string
  readonly fence: string
  /** Put over the frame by an extension. */
  readonly patch: Uint8Array | undefined
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

export function clearMarks(record: MemoryRecord): void {
  record.passUntil = 0
  record.retryAt = 0
  record.failure = undefined
}

export function grantOf(key: string, record: MemoryRecord): Grant {
  return { key, token: record.token, fence: String(record.fence) }
}

export function isGrantOf(record: MemoryRecord | undefined, { fence, token }: Grant): boolean {
  return record !== undefined && String(record.fence) === fence && record.token === token
}

export function bytesOf(record: MemoryRecord): number {
  return (record.entry?.frame.byteLength ?? 0) + (record.entry?.patch?.byteLength ?? 0)
}

/** An entry past everything it may be used for is as if it were not there. */
export function usable({ entry }: MemoryRecord, now: number): MemoryEntry | undefined {
  if (entry === undefined) return undefined
  const { staleWhileRevalidateMs, staleIfErrorMs, keepMs } = entry.lifetimes
  const end = entry.freshUntil + Math.max(staleWhileRevalidateMs, staleIfErrorMs, keepMs)
  return now < end ? entry : undefined
}

export function storedOf(
  { frame, stored, fence, patch, madeAt, freshUntil, lifetimes }: MemoryEntry,
  now: number,
  knownFence: string | undefined,
): StoredFrame {
  return {
    frame: knownFence === fence || knownFence === stored ? undefined : frame,
    patch: knownFence === fence ? undefined : patch,
    fence,
    ageMs: now - madeAt,
    freshForMs: freshUntil - now,
    staleWhileRevalidateMs: lifetimes.staleWhileRevalidateMs,
    staleIfErrorMs: lifetimes.staleIfErrorMs,
    keepMs: lifetimes.keepMs,
  }
}
