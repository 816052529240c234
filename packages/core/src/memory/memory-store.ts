// The store of one process: locks, idempotency keys and purges in its memory. It has no records of
// entries, because the copies in L1 are the entries then.

import type { L1 } from '../l1/l1.ts'
import type { Clock } from '../ports/clock.ts'
import type { MemoryStore, StoreHooks } from '../ports/store.ts'
import { ProcessRecords } from './expiring-map.ts'
import { MemoryIdempotency } from './memory-idempotency.ts'
import { MemoryLocks } from './memory-locks.ts'
import { MemoryOperator } from './memory-operator.ts'

/** Creates a store for a single process, tests and development. Entries are bounded by `l1`. */
export function memoryStore(): MemoryStore {
  return new ProcessStore()
}

export function isMemoryStore(value: unknown): value is MemoryStore {
  return value instanceof ProcessStore
}

/** Lets the operator of a memory store read the entries of a Stampede. */
export function showEntries(store: MemoryStore, l1: L1): void {
  if (store instanceof ProcessStore) store.l1 = l1
}

class ProcessStore extends ProcessRecords<StoreHooks> implements MemoryStore {
  protected readonly user = 'createStampede'
  readonly locks: MemoryLocks = new MemoryLocks()
  readonly idempotency: MemoryIdempotency = new MemoryIdempotency()
  readonly operator: MemoryOperator = new MemoryOperator(this)
  readonly hasTimeBudget = true
  readonly isAvailable = true
  /** The store has one process, which cannot miss a purge. */
  readonly confirmedAt = Number.POSITIVE_INFINITY
  l1: L1 | undefined
  /** Position of the newest purge by subject. Purges by key need no position in one process. */
  position = 0

  get clock(): Clock | undefined {
    return this.hooks?.clock
  }

  async purge(group: string, options: { soft: boolean }): Promise<void> {
    this.hooks?.onPurge(group, options)
  }

  async mark(subjects: string | readonly string[], { soft }: { soft: boolean }): Promise<void> {
    for (const subject of [subjects].flat()) {
      this.position = Number(this.fences.next())
      this.hooks?.onMark({ subject, soft, position: this.position, agoMs: 0 })
    }
  }

  async close(): Promise<void> {}
}
