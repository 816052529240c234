// The records of a memory store as L1 sees them, so that each entry is in memory once.

import type { GroupedLru } from '../l1/grouped-lru.ts'
import type { L1Item, L1Storage } from '../l1/l1.ts'
import type { MemoryRecord } from './memory-record.ts'

/**
 * The records as L1 sees them: each has one copy or one marker. Only the store adds and removes
 * records.
 */
export class RecordSlots implements L1Storage {
  readonly #records: GroupedLru<MemoryRecord>

  constructor(records: GroupedLru<MemoryRecord>) {
    this.#records = records
  }

  get size(): number {
    return this.#records.size
  }

  get calculatedSize(): number {
    return this.#records.calculatedSize
  }

  get maxSize(): number {
    return this.#records.maxSize
  }

  get maxEntrySize(): number {
    return this.#records.maxEntrySize
  }

  get(key: string): L1Item | undefined {
    return this.#records.get(key)?.slot
  }

  set(key: string, slot: L1Item): void {
    const record = this.#records.peek(key)
    if (record?.slot === undefined || record.slot === slot) return
    if (versionOf(record.slot) === versionOf(slot)) this.#records.set(key, { ...record, slot })
  }

  delete(): void {}

  purge(): void {}

  clear(): void {}
}

const versionOf = (slot: L1Item): string => (slot.type === 'copy' ? slot.held.fence : slot.type)
