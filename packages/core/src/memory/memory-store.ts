// The embedded default: the same protocol as lua/, on a Map in this process. Records are bounded by an
// LRU, and time is the runtime's clock.

import { LRUCache } from 'lru-cache'
import { GroupIndex } from '../cache/group-index.ts'
import { storeInUse } from '../errors.ts'
import { checkNames, readNumber } from '../options.ts'
import type { IdempotencyStore } from '../ports/idempotency-store.ts'
import type { LockStore } from '../ports/lock-store.ts'
import type {
  CommitReply,
  Failure,
  Grant,
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
  clearMarks,
  grantOf,
  isGrantOf,
  type MemoryEntry,
  type MemoryRecord,
  newRecord,
  storedOf,
  usable,
} from './memory-record.ts'

export interface MemoryStoreOptions {
  /** Bound of all records together. Default 128 MiB; the least recently used go first. */
  maxBytes?: number
}

const RECORD_BYTES = 300

/** A store in this process, for one process, tests and development. */
export function memoryStore(options?: MemoryStoreOptions): StampedeStore {
  const bag = checkNames('memoryStore', options, ['maxBytes'])
  // Less would not hold the leases of the keys that are being filled.
  const range = { min: 1_024, max: 2 ** 40, unit: 'bytes' }
  return new MemoryStore(readNumber('memoryStore', bag, 'maxBytes', range) ?? 128 * 1024 * 1024)
}

class MemoryStore implements StampedeStore {
  readonly locks: LockStore = new MemoryLocks()
  readonly idempotency: IdempotencyStore = new MemoryIdempotency()
  readonly name = 'memory'
  /** There is nobody to miss a purge of. */
  readonly confirmedAt = Number.POSITIVE_INFINITY
  readonly #records: LRUCache<string, MemoryRecord>
  readonly #groups = new GroupIndex()
  #lastFence = 0
  #position = 0
  #hooks: StoreHooks | undefined

  constructor(maxBytes: number) {
    this.#records = new LRUCache<string, MemoryRecord>({
      maxSize: maxBytes,
      sizeCalculation: (record, key) => RECORD_BYTES + key.length * 2 + bytesOf(record),
      dispose: (_record, key, reason) => {
        if (reason !== 'set') this.#groups.remove(key)
      },
    })
  }

  attach(hooks: StoreHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createStampede')
    this.#hooks = hooks
  }

  /** The newest purge by subject; the purges of keys have no need of one here. */
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
    if (now < record.passUntil) return { status: 'pass', forMs: record.passUntil - now }
    if (record.failure && now < record.retryAt) {
      const shared = {
        status: 'failed',
        failure: record.failure,
        forMs: record.retryAt - now,
      } as const
      return stored ? { ...shared, stored } : shared
    }
    const stale = entry && now < entry.freshUntil + entry.lifetimes.staleWhileRevalidateMs
    const mayLease = request.leaseMs > 0 && (!isHeld || record.token === request.token)
    if (!mayLease) {
      if (request.leaseMs > 0) record.waiting = true
      const busyForMs = request.leaseMs > 0 ? Math.max(0, record.leaseUntil - now) : 0
      return stale && stored
        ? { status: 'stale', stored, busyForMs }
        : { status: 'busy', busyForMs }
    }
    const grant = isHeld ? grantOf(key, record) : this.#grant(key, record, request, now)
    if (stale && stored) return { status: 'stale', stored, grant, busyForMs: 0 }
    return stored ? { status: 'leased', grant, stored } : { status: 'leased', grant }
  }

  async commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply> {
    const { fence } = grant
    return this.#write(grant, lifetimes, () => ({ frame, stored: fence, patch: undefined }))
  }

  async extend(grant: Grant, patch: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply> {
    return this.#write(grant, lifetimes, ({ frame, stored }) => ({ frame, stored, patch }))
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

  /** What `how` makes of the entry there is; an extension needs one. */
  #write(
    grant: Grant,
    lifetimes: Lifetimes,
    how: (before: MemoryEntry) => Pick<MemoryEntry, 'frame' | 'stored' | 'patch'>,
  ): CommitReply {
    const record = this.#records.get(grant.key)
    if (record === undefined || String(record.fence) !== grant.fence) return 'fenced'
    const { entry } = record
    if (record.token !== grant.token) return entry?.fence === grant.fence ? 'committed' : 'fenced'
    const written = how(entry ?? NO_ENTRY)
    if (written.frame === NO_ENTRY.frame) return 'fenced'
    const now = this.#now()
    const freshUntil = now + lifetimes.freshMs
    record.entry = { ...written, fence: grant.fence, madeAt: now, freshUntil, lifetimes }
    this.#endLease(grant.key, record)
    return 'committed'
  }

  #purgeOne(key: string, record: MemoryRecord, soft: boolean): void {
    if (soft && record.entry !== undefined) {
      record.fence = this.#nextFence(record)
      record.entry.freshUntil = Math.min(record.entry.freshUntil, this.#now())
      this.#endLease(key, record)
    } else {
      this.#records.delete(key)
      if (record.waiting) this.#wake(key)
    }
  }

  #end(grant: Grant, how: (record: MemoryRecord, now: number) => void): CommitReply {
    const record = this.#records.get(grant.key)
    if (record === undefined || !isGrantOf(record, grant)) return 'fenced'
    clearMarks(record)
    how(record, this.#now())
    this.#endLease(grant.key, record, false)
    return 'committed'
  }

  #endLease(key: string, record: MemoryRecord, clear = true): void {
    record.token = ''
    record.leaseUntil = 0
    if (clear) clearMarks(record)
    const { waiting } = record
    record.waiting = false
    this.#keep(key, record)
    if (waiting) this.#wake(key)
  }

  #grant(key: string, record: MemoryRecord, request: LookupRequest, now: number): Grant {
    record.fence = this.#nextFence(record)
    record.token = request.token
    record.leaseUntil = now + request.leaseMs
    clearMarks(record)
    this.#keep(key, record)
    return grantOf(key, record)
  }

  /** A copy: the LRU measures what it is given anew only if it is another object. */
  #keep(key: string, record: MemoryRecord): void {
    this.#records.set(key, { ...record })
    if (this.#records.has(key)) this.#groups.add(key)
    else this.#groups.remove(key)
  }

  /** Rises over a purge too, which forgets the record within the same millisecond. */
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

const NO_ENTRY = { frame: new Uint8Array() } as MemoryEntry

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
