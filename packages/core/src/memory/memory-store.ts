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
  StoredFrame,
  StoreHooks,
} from '../ports/store.ts'
import { MemoryIdempotency } from './memory-idempotency.ts'
import { MemoryLocks } from './memory-locks.ts'

interface Record {
  fence: number
  token: string
  leaseUntil: number
  waiting: boolean
  passUntil: number
  retryAt: number
  failure: Failure | undefined
  entry: Entry | undefined
}

interface Entry {
  readonly frame: Uint8Array
  readonly fence: string
  readonly madeAt: number
  freshUntil: number
  readonly lifetimes: Lifetimes
}

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
  readonly #records: LRUCache<string, Record>
  readonly #groups = new GroupIndex()
  #lastFence = 0
  #hooks: StoreHooks | undefined

  constructor(maxBytes: number) {
    this.#records = new LRUCache<string, Record>({
      maxSize: maxBytes,
      sizeCalculation: (record, key) =>
        RECORD_BYTES + key.length * 2 + (record.entry?.frame.byteLength ?? 0),
      dispose: (_record, key, reason) => {
        if (reason !== 'set') this.#groups.remove(key)
      },
    })
  }

  attach(hooks: StoreHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createStampede')
    this.#hooks = hooks
  }

  async lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    const now = this.#now()
    const record = this.#records.get(key) ?? newRecord()
    if (record.entry?.fence === request.unreadableFence) record.entry = undefined
    const entry = this.#usable(record, now)
    const stored = entry && storedOf(entry, now, request.knownFence)
    if (entry && stored && now < entry.freshUntil) return { status: 'fresh', stored }
    if (now < record.passUntil) return { status: 'pass', forMs: record.passUntil - now }
    if (record.failure && now < record.retryAt) {
      const { failure, retryAt } = record
      const forMs = retryAt - now
      return stored
        ? { status: 'failed', failure, forMs, stored }
        : { status: 'failed', failure, forMs }
    }
    const stale = entry && now < entry.freshUntil + entry.lifetimes.staleWhileRevalidateMs
    const busyForMs = Math.max(0, record.leaseUntil - now)
    const held = record.token !== '' && busyForMs > 0
    const mayLease = request.leaseMs > 0 && (!held || record.token === request.token)
    if (!mayLease) {
      if (request.leaseMs > 0) record.waiting = true
      const forMs = request.leaseMs > 0 ? busyForMs : 0
      return stale && stored
        ? { status: 'stale', stored, busyForMs: forMs }
        : { status: 'busy', busyForMs: forMs }
    }
    const grant = held ? grantOf(key, record) : this.#grant(key, record, request, now)
    if (stale && stored) return { status: 'stale', stored, grant, busyForMs: 0 }
    return stored ? { status: 'leased', grant, stored } : { status: 'leased', grant }
  }

  async commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply> {
    const record = this.#records.get(grant.key)
    if (record === undefined || String(record.fence) !== grant.fence) return 'fenced'
    if (record.token !== grant.token) {
      return record.entry?.fence === grant.fence ? 'committed' : 'fenced'
    }
    const now = this.#now()
    const freshUntil = now + lifetimes.freshMs
    record.entry = { frame, fence: grant.fence, madeAt: now, freshUntil, lifetimes }
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
    return grants.map(({ key, fence, token }) => {
      const record = this.#records.get(key)
      if (record === undefined || String(record.fence) !== fence || record.token !== token)
        return false
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

  #purgeOne(key: string, record: Record, soft: boolean): void {
    if (soft && record.entry !== undefined) {
      record.fence = this.#nextFence(record)
      record.entry.freshUntil = Math.min(record.entry.freshUntil, this.#now())
      this.#endLease(key, record)
    } else {
      this.#records.delete(key)
      if (record.waiting) this.#wake(key)
    }
  }

  #end(grant: Grant, how: (record: Record, now: number) => void): CommitReply {
    const record = this.#records.get(grant.key)
    const isOurs = record?.token === grant.token && String(record.fence) === grant.fence
    if (record === undefined || !isOurs) return 'fenced'
    clearMarks(record)
    how(record, this.#now())
    this.#endLease(grant.key, record, false)
    return 'committed'
  }

  #endLease(key: string, record: Record, clear = true): void {
    record.token = ''
    record.leaseUntil = 0
    if (clear) clearMarks(record)
    const { waiting } = record
    record.waiting = false
    this.#keep(key, record)
    if (waiting) this.#wake(key)
  }

  #grant(key: string, record: Record, request: LookupRequest, now: number): Grant {
    record.fence = this.#nextFence(record)
    record.token = request.token
    record.leaseUntil = now + request.leaseMs
    clearMarks(record)
    this.#keep(key, record)
    return grantOf(key, record)
  }

  /** A copy: the LRU measures what it is given anew only if it is another object. */
  #keep(key: string, record: Record): void {
    this.#records.set(key, { ...record })
    if (this.#records.has(key)) this.#groups.add(key)
    else this.#groups.remove(key)
  }

  /** Rises over a purge too, which forgets the record within the same millisecond. */
  #nextFence(record: Record): number {
    const clock = Math.floor((this.#hooks?.clock.wallNow() ?? 0) * 1000)
    this.#lastFence = Math.max(record.fence + 1, this.#lastFence + 1, clock)
    return this.#lastFence
  }

  /** An entry past everything it may be used for is as if it were not there. */
  #usable(record: Record, now: number): Entry | undefined {
    const { entry } = record
    if (entry === undefined) return undefined
    const { staleWhileRevalidateMs, staleIfErrorMs } = entry.lifetimes
    const end = entry.freshUntil + Math.max(staleWhileRevalidateMs, staleIfErrorMs)
    return now < end ? entry : undefined
  }

  #wake(key: string): void {
    queueMicrotask(() => this.#hooks?.onWake(key))
  }

  #now(): number {
    return this.#hooks?.clock.now() ?? 0
  }
}

function newRecord(): Record {
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

function clearMarks(record: Record): void {
  record.passUntil = 0
  record.retryAt = 0
  record.failure = undefined
}

function grantOf(key: string, record: Record): Grant {
  return { key, token: record.token, fence: String(record.fence) }
}

function storedOf(entry: Entry, now: number, knownFence: string | undefined): StoredFrame | 'same' {
  if (entry.fence === knownFence) return 'same'
  return {
    frame: entry.frame,
    fence: entry.fence,
    ageMs: now - entry.madeAt,
    freshForMs: entry.freshUntil - now,
    staleWhileRevalidateMs: entry.lifetimes.staleWhileRevalidateMs,
    staleIfErrorMs: entry.lifetimes.staleIfErrorMs,
  }
}
