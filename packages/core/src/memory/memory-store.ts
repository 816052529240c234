// The embedded default: the same protocol as lua/, on a Map in this process. Records are bounded by an
// LRU, and time is the runtime's clock.

import { LRUCache } from 'lru-cache'
import { ownBytes } from '../entry/own-memory.ts'
import { storeInUse } from '../errors.ts'
import { GroupIndex } from '../l1/group-index.ts'
import { checkNames, readNumber } from '../options.ts'
import type { IdempotencyStore } from '../ports/idempotency-store.ts'
import type { LockStore } from '../ports/lock-store.ts'
import type {
  CommitReply,
  Failure,
  Grant,
  LazyFrame,
  Lifetimes,
  LookupReply,
  LookupRequest,
  StampedeStore,
  StoreHooks,
} from '../ports/store.ts'
import { MemoryIdempotency } from './memory-idempotency.ts'
import { MemoryLocks } from './memory-locks.ts'
import {
  bytesOf,
  clearFailure,
  endOf,
  grantOf,
  isGrantOf,
  type MemoryRecord,
  newRecord,
  storedOf,
  usable,
} from './memory-record.ts'

export interface MemoryStoreOptions {
  /** Bound of all records together. Default 128 MiB; the least recently used go first. */
  maxBytes?: number
}

/** Records that each write checks for expiry, the least recently used first. */
const SWEPT_AT_ONCE = 4

/** A store in this process, for one process, tests and development. */
export function memoryStore(options?: MemoryStoreOptions): StampedeStore {
  const bag = checkNames('memoryStore', options, ['maxBytes'])
  // A smaller store could not hold the leases of keys that are being filled.
  const range = { min: 1_024, max: 2 ** 40, unit: 'bytes' }
  return new MemoryStore(readNumber('memoryStore', bag, 'maxBytes', range) ?? 128 * 1024 * 1024)
}

class MemoryStore implements StampedeStore {
  readonly locks: LockStore = new MemoryLocks()
  readonly idempotency: IdempotencyStore = new MemoryIdempotency()
  readonly name = 'memory'
  /** One process cannot miss a purge. */
  readonly confirmedAt = Number.POSITIVE_INFINITY
  readonly #records: LRUCache<string, MemoryRecord>
  readonly #groups = new GroupIndex()
  #cursor: Iterator<string> | undefined
  #lastFence = 0
  #position = 0
  #hooks: StoreHooks | undefined

  constructor(maxBytes: number) {
    this.#records = new LRUCache<string, MemoryRecord>({
      maxSize: maxBytes,
      sizeCalculation: (record, key) => bytesOf(key, record),
      dispose: (_record, key, reason) => {
        if (reason !== 'set') this.#groups.remove(key)
      },
    })
  }

  attach(hooks: StoreHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createStampede')
    this.#hooks = hooks
  }

  /** Expired records count until they are swept. */
  get size(): { entries: number; bytes: number } {
    return { entries: this.#records.size, bytes: this.#records.calculatedSize }
  }

  /** Position of the newest purge by subject. Purges by key need none here. */
  get position(): number {
    return this.#position
  }

  async lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    const now = this.#now()
    const record = this.#records.get(key) ?? newRecord()
    if (request.outdated !== undefined) outdate(record, request.outdated, now)
    const entry = usable(record, now)
    const stored = entry && storedOf(entry, now, request.knownFence)
    const isHeld = record.token !== '' && now < record.leaseUntil
    if (entry && stored && now < entry.freshUntil) {
      if (!request.early || isHeld) return { status: 'fresh', stored }
      return { status: 'fresh', stored, grant: this.#grant(key, record, request, now) }
    }
    const mayLease = request.leaseMs > 0 && (!isHeld || record.token === request.token)
    const isPassing = now < record.passUntil
    if (isPassing && !mayLease) return { status: 'pass', forMs: record.passUntil - now }
    if (!isPassing && record.failure && now < record.retryAt && !isOther(record.failure, request)) {
      const { failure, retryAt } = record
      const shared = { status: 'failed', failure, forMs: retryAt - now } as const
      return stored ? { ...shared, stored } : shared
    }
    const stale = entry && now < entry.freshUntil + entry.lifetimes.staleWhileRevalidateMs
    if (!mayLease) {
      if (request.leaseMs > 0) record.waiting = true
      const busyForMs = request.leaseMs > 0 ? Math.max(0, record.leaseUntil - now) : 0
      return stale && stored
        ? { status: 'stale', stored, busyForMs }
        : { status: 'busy', busyForMs }
    }
    const grant = isHeld ? grantOf(key, record) : this.#grant(key, record, request, now)
    if (isPassing) return { status: 'pass', forMs: record.passUntil - now, grant }
    if (stale && stored) return { status: 'stale', stored, grant, busyForMs: 0 }
    return stored ? { status: 'leased', grant, stored } : { status: 'leased', grant }
  }

  async commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply> {
    return this.#commit(grant, ownBytes(frame), lifetimes)
  }

  async commitLazy(grant: Grant, frame: LazyFrame, lifetimes: Lifetimes): Promise<CommitReply> {
    return this.#commit(grant, frame, lifetimes)
  }

  #commit(grant: Grant, frame: Uint8Array | LazyFrame, lifetimes: Lifetimes): CommitReply {
    const record = this.#records.get(grant.key)
    if (record === undefined || String(record.fence) !== grant.fence) return 'fenced'
    if (record.token !== grant.token) {
      return record.entry?.fence === grant.fence ? 'committed' : 'fenced'
    }
    const now = this.#now()
    const freshUntil = now + lifetimes.freshMs
    record.entry = { frame, fence: grant.fence, madeAt: now, freshUntil, lifetimes }
    record.passUntil = 0
    clearFailure(record)
    this.#endLease(grant.key, record)
    return 'committed'
  }

  async pass(grant: Grant, passMs: number): Promise<CommitReply> {
    return this.#end(grant, (record, now) => {
      record.entry = undefined
      record.passUntil = now + passMs
    })
  }

  async fail(
    grant: Grant,
    failure: Failure | undefined,
    backoffMs: number,
    awaited = false,
  ): Promise<CommitReply> {
    return this.#end(grant, (record, now) => {
      if (failure === undefined || backoffMs === 0) return
      if (!awaited && !record.waiting) return
      record.failure = failure
      record.retryAt = now + backoffMs
    })
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const now = this.#now()
    return grants.map((grant) => {
      const record = this.#records.get(grant.key)
      if (record === undefined || !isGrantOf(record, grant)) return false
      record.leaseUntil = now + leaseMs
      return true
    })
  }

  async purge(group: string, { soft }: { soft: boolean }): Promise<void> {
    for (const key of this.#groups.keysOf(group)) {
      const record = this.#records.peek(key)
      if (record !== undefined) this.#purgeOne(key, record, soft)
    }
  }

  async close(): Promise<void> {
    this.#records.clear()
  }

  async mark(subject: string, { soft }: { soft: boolean }): Promise<void> {
    const clock = Math.floor((this.#hooks?.clock.wallNow() ?? 0) * 1000)
    this.#position = Math.max(this.#position + 1, clock)
    this.#hooks?.onMark({ subject, soft, position: this.#position, agoMs: 0 })
  }

  #purgeOne(key: string, record: MemoryRecord, soft: boolean): void {
    if (soft && record.entry !== undefined) {
      record.fence = this.#nextFence(record)
      record.entry.freshUntil = Math.min(record.entry.freshUntil, this.#now())
      clearFailure(record)
      this.#endLease(key, record)
    } else {
      this.#records.delete(key)
      if (record.waiting) this.#wake(key)
    }
  }

  #end(grant: Grant, how: (record: MemoryRecord, now: number) => void): CommitReply {
    const record = this.#records.get(grant.key)
    if (record === undefined || !isGrantOf(record, grant)) return 'fenced'
    clearFailure(record)
    how(record, this.#now())
    this.#endLease(grant.key, record)
    return 'committed'
  }

  #endLease(key: string, record: MemoryRecord): void {
    record.token = ''
    record.leaseUntil = 0
    const { waiting } = record
    record.waiting = false
    this.#keep(key, record)
    if (waiting) this.#wake(key)
  }

  #grant(key: string, record: MemoryRecord, request: LookupRequest, now: number): Grant {
    record.fence = this.#nextFence(record)
    record.token = request.token
    record.leaseUntil = now + request.leaseMs
    clearFailure(record)
    this.#keep(key, record)
    return grantOf(key, record)
  }

  /** A copy: the LRU measures an object only once. */
  #keep(key: string, record: MemoryRecord): void {
    this.#sweepSome()
    this.#records.set(key, { ...record })
    if (this.#records.has(key)) this.#groups.add(key)
    else this.#groups.remove(key)
  }

  #sweepSome(): void {
    const now = this.#now()
    for (let i = 0; i < SWEPT_AT_ONCE; i++) {
      this.#cursor ??= this.#records.rkeys()
      const { done, value: swept } = this.#cursor.next()
      if (done === true) {
        this.#cursor = undefined
        return
      }
      const record = this.#records.peek(swept)
      if (record !== undefined && now >= endOf(record)) this.#records.delete(swept)
    }
  }

  /** Also rises over a purge that forgets the record within the same millisecond. */
  #nextFence(record: MemoryRecord): number {
    const clock = Math.floor((this.#hooks?.clock.wallNow() ?? 0) * 1000)
    this.#lastFence = Math.max(record.fence + 1, this.#lastFence + 1, clock)
    return this.#lastFence
  }

  #wake(key: string): void {
    queueMicrotask(() => this.#hooks?.onWake(key))
  }

  #now(): number {
    return this.#hooks?.clock.now() ?? 0
  }
}

/** A failure may be caused by its request, so an unlike request does not share it. */
function isOther({ like }: Failure, request: LookupRequest): boolean {
  return like !== undefined && request.like !== undefined && request.like !== like
}

function outdate(
  record: MemoryRecord,
  { fence, soft }: NonNullable<LookupRequest['outdated']>,
  now: number,
): void {
  const { entry } = record
  if (entry === undefined || entry.fence !== fence) return
  if (soft) entry.freshUntil = Math.min(entry.freshUntil, now)
  else record.entry = undefined
}
