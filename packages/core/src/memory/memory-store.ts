// The store of one process: locks, idempotency keys and purges in its memory. It has no records of
// entries, because the copies in L1 are the entries then.

import { storeInUse } from '../errors.ts'
import type { L1 } from '../l1/l1.ts'
import type { MemoryStore, StoreHooks } from '../ports/store.ts'
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

class ProcessStore implements MemoryStore {
  readonly locks: MemoryLocks = new MemoryLocks()
  readonly idempotency: MemoryIdempotency = new MemoryIdempotency()
  readonly operator: MemoryOperator
  readonly name = 'memory'
  readonly hasTimeBudget = true
  readonly isAvailable = true
  /** The store has one process, which cannot miss a purge. */
  readonly confirmedAt = Number.POSITIVE_INFINITY
  l1: L1 | undefined
  #position = 0
  #hooks: StoreHooks | undefined

  constructor() {
    const { locks, idempotency } = this
    const [clock, l1] = [() => this.#hooks?.clock, () => this.l1]
    this.operator = new MemoryOperator({ locks, idempotency, clock, l1 })
  }

  attach(hooks: StoreHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createStampede')
    this.#hooks = hooks
  }

  /** Position of the newest purge by subject. Purges by key need no position in one process. */
  get position(): number {
    return this.#position
  }

  async purge(group: string, options: { soft: boolean }): Promise<void> {
    this.#hooks?.onPurge(group, options)
  }

  async mark(subjects: string | readonly string[], { soft }: { soft: boolean }): Promise<void> {
    const clock = Math.floor((this.#hooks?.clock.wallNow() ?? 0) * 1000)
    for (const subject of [subjects].flat()) {
      this.#position = Math.max(this.#position + 1, clock)
      this.#hooks?.onMark({ subject, soft, position: this.#position, agoMs: 0 })
    }
  }

  async close(): Promise<void> {}
}
