// The records of a memory store as L1 sees them, so that each entry is in memory once.

import { GroupedLru } from '../l1/grouped-lru.ts'
import type { L1Item, L1Limits, L1Storage } from '../l1/l1.ts'
import { bytesOf, type MemoryRecord } from './memory-record.ts'

/** A store below this size would evict the leases of running fills. */
export const LEAST_BYTES = 1_024
export const DEFAULT_BYTES: number = 64 * 1024 * 1024

/** The limits of L1 that an app has set. */
export type SetLimits = { readonly [Name in keyof L1Limits]?: number | undefined }

/**
 * The records as L1 sees them: each has one copy or one marker. Only the store adds and removes
 * records.
 */
export class RecordSlots implements L1Storage {
  readonly records: GroupedLru<MemoryRecord>
  readonly maxEntrySize: number
  readonly #maxEntries: number

  /**
   * `ownBytes` is the limit of the store itself. A `maxBytes` or `maxEntries` of 0 is no limit: it
   * switches L1 off.
   */
  constructor(
    ownBytes: number | undefined,
    { maxBytes, maxEntries, maxEntryBytes }: SetLimits = {},
  ) {
    const own = ownBytes ?? Number.POSITIVE_INFINITY
    const bytes = Math.min(own, maxBytes || (ownBytes ?? DEFAULT_BYTES))
    const maxSize = Math.max(LEAST_BYTES, bytes)
    this.records = new GroupedLru({ maxSize, sizeCalculation: bytesOf })
    this.maxEntrySize = Math.min(maxEntryBytes ?? maxSize, maxSize)
    this.#maxEntries = maxEntries || Number.POSITIVE_INFINITY
  }

  /** Keeps `maxEntries`. Evicts no lease, because its fill would be lost, and not `written`. */
  evict(written: string): void {
    if (this.size <= this.#maxEntries) return
    for (const key of this.records.rkeys()) {
      const isLeased = this.records.peek(key)?.token !== ''
      if (key !== written && !isLeased) this.records.delete(key)
      if (this.size <= this.#maxEntries) return
    }
  }

  get size(): number {
    return this.records.size
  }

  get calculatedSize(): number {
    return this.records.calculatedSize
  }

  get maxSize(): number {
    return this.records.maxSize
  }

  get(key: string): L1Item | undefined {
    return this.records.get(key)?.slot
  }

  set(key: string, slot: L1Item): void {
    const record = this.records.peek(key)
    if (record?.slot === undefined || record.slot === slot) return
    if (versionOf(record.slot) === versionOf(slot)) this.records.set(key, { ...record, slot })
  }

  delete(): void {}

  purge(): void {}

  clear(): void {}
}

const versionOf = (slot: L1Item): string => (slot.type === 'copy' ? slot.held.fence : slot.type)
