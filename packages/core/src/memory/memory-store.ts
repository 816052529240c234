// The memory store: the protocol of lua/ on an LRU map in this process. L1 uses the same map, so
// each entry is in memory only once, as an object. Time comes from the clock of the runtime.

import { heldEntry, staleFrom, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { ownBytes } from '../entry/own-memory.ts'
import { storeInUse } from '../errors.ts'
import type { GroupedLru } from '../l1/grouped-lru.ts'
import { type L1Copy, type LocalStore, newCopy, newMarker } from '../l1/l1.ts'
import { number, readOptions } from '../options.ts'
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
import type { StoreOperator } from '../ports/store-operator.ts'
import { MemoryIdempotency } from './memory-idempotency.ts'
import { MemoryLocks } from './memory-locks.ts'
import { MemoryOperator } from './memory-operator.ts'
import {
  bytesOf,
  clearFailure,
  endOf,
  grantOf,
  heldIn,
  isGrantOf,
  type MemoryRecord,
  newRecord,
  passUntil,
  storedFrameOf,
  usable,
} from './memory-record.ts'
import { DEFAULT_BYTES, LEAST_BYTES, RecordSlots, type SetLimits } from './record-slots.ts'

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Limit of all records in bytes. The least recently used ones are evicted. Default: `l1.maxBytes`
   * of `createStampede`, 64 MiB. If both are set, the smaller one counts.
   */
  maxBytes?: number | undefined
}

/** Number of records that each write checks for expiry, the least recently used first. */
const SWEPT_AT_ONCE = 4

const OPTIONS = {
  maxBytes: number(DEFAULT_BYTES, { min: LEAST_BYTES, max: 2 ** 40, unit: 'bytes' }),
}

/** Creates a store for a single process, tests and development. May throw `ERR_STAMPEDE_OPTION`. */
export function memoryStore(options?: MemoryStoreOptions): StampedeStore {
  const { maxBytes } = readOptions('memoryStore', options, OPTIONS)
  return new MemoryStore(options?.maxBytes === undefined ? undefined : maxBytes)
}

/**
 * Returns the store if it is a memory store. L1 then shares its records, so the limits of L1 that
 * the app has set are those of the records.
 */
export function localStore(
  store: StampedeStore,
  limits: SetLimits | undefined,
): LocalStore | undefined {
  if (!(store instanceof MemoryStore)) return undefined
  store.limit(limits)
  return store
}

class MemoryStore implements StampedeStore, LocalStore {
  readonly locks: MemoryLocks = new MemoryLocks()
  readonly idempotency: MemoryIdempotency = new MemoryIdempotency()
  readonly operator: StoreOperator
  readonly name = 'memory'
  readonly hasTimeBudget = true
  readonly isAvailable = true
  /** The store has one process, which cannot miss a purge. */
  readonly confirmedAt = Number.POSITIVE_INFINITY
  items: RecordSlots
  readonly #ownBytes: number | undefined
  #cursor: Iterator<string> | undefined
  #lastFence = 0
  #position = 0
  #hooks: StoreHooks | undefined

  constructor(ownBytes: number | undefined) {
    this.#ownBytes = ownBytes
    this.items = new RecordSlots(ownBytes)
    this.operator = new MemoryOperator({
      records: () => this.#records,
      locks: this.locks,
      idempotency: this.idempotency,
      clock: () => this.#hooks?.clock,
    })
  }

  limit(limits: SetLimits | undefined): void {
    if (this.#hooks === undefined) this.items = new RecordSlots(this.#ownBytes, limits)
  }

  get #records(): GroupedLru<MemoryRecord> {
    return this.items.records
  }

  attach(hooks: StoreHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createStampede')
    this.#hooks = hooks
  }

  /** Expired records count until they are swept. */
  get size(): { entries: number; bytes: number } {
    return { entries: this.#records.size, bytes: this.#records.calculatedSize }
  }

  /** Position of the newest purge by subject. Purges by key need no position in one process. */
  get position(): number {
    return this.#position
  }

  async lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    const now = this.#now()
    const record = this.#records.get(key) ?? newRecord()
    if (request.outdated !== undefined) outdate(record, request.outdated, now)
    const entry = usable(record, now)
    const stored = entry && storedFrameOf(entry, now, request.knownFence)
    if (entry && stored && now < entry.staleAt) return { status: 'fresh', stored }
    const isHeld = record.token !== '' && now < record.leaseUntil
    const mayLease = request.leaseMs > 0 && (!isHeld || record.token === request.token)
    const passForMs = passUntil(record) - now
    const isPassing = passForMs > 0
    if (isPassing && !mayLease) return { status: 'pass', forMs: passForMs }
    if (!isPassing && record.failure && now < record.retryAt && !isOther(record.failure, request)) {
      const { failure, retryAt } = record
      const shared = { status: 'failed', failure, forMs: retryAt - now } as const
      return stored ? { ...shared, stored } : shared
    }
    const stale = entry && now < entry.revalidateUntil
    if (!mayLease) {
      if (request.leaseMs > 0) record.waiting = true
      const busyForMs = request.leaseMs > 0 ? Math.max(0, record.leaseUntil - now) : 0
      return stale && stored
        ? { status: 'stale', stored, busyForMs }
        : { status: 'busy', busyForMs }
    }
    const grant = isHeld ? grantOf(key, record) : this.#grant(key, record, request, now)
    if (isPassing) return { status: 'pass', forMs: passForMs, grant }
    if (stale && stored) return { status: 'stale', stored, grant, busyForMs: 0 }
    return stored ? { status: 'leased', grant, stored } : { status: 'leased', grant }
  }

  commit(
    grant: Grant,
    frame: Uint8Array,
    lifetimes: Lifetimes,
  ): Promise<CommitReply | 'too-large'> {
    const entry = {
      type: 'value',
      encoding: 'bytes',
      body: ownBytes(frame),
      provenance: UNKNOWN_PROVENANCE,
    } as const
    return this.keep(grant, newCopy(heldEntry(entry, grant.fence, lifetimes, this.#now())))
  }

  async keep(grant: Grant, slot: L1Copy): Promise<CommitReply | 'too-large'> {
    const record = this.#records.get(grant.key)
    if (record === undefined || String(record.fence) !== grant.fence) return 'fenced'
    if (record.token !== grant.token) {
      return heldIn(record)?.fence === grant.fence ? 'committed' : 'fenced'
    }
    record.slot = slot
    const isTooLarge = bytesOf(record, grant.key) > this.items.maxEntrySize
    if (isTooLarge) record.slot = undefined
    clearFailure(record)
    this.#endLease(grant.key, record)
    return isTooLarge || !this.#records.has(grant.key) ? 'too-large' : 'committed'
  }

  async pass(grant: Grant, passMs: number): Promise<CommitReply> {
    return this.#end(grant, (record, now) => {
      record.slot = newMarker(now, passMs)
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
    for (const key of this.#records.keysOf(group)) {
      const record = this.#records.peek(key)
      if (record !== undefined) this.#purgeOne(key, record, soft)
    }
    this.#hooks?.onPurge(group, { soft })
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
    if (soft && record.slot?.type === 'copy') {
      record.fence = this.#nextFence(record)
      makeStale(record.slot, this.#now())
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
    this.#writeRecord(key, record)
    this.items.evict(key)
    if (waiting) this.#wake(key)
  }

  #grant(key: string, record: MemoryRecord, request: LookupRequest, now: number): Grant {
    const isKnown = record.token !== '' || record.slot !== undefined
    record.fence = this.#nextFence(record)
    record.token = request.token
    record.leaseUntil = now + request.leaseMs
    // The LRU measures a record only in `set`, which is not needed if the size of the record did
    // not change.
    if (record.failure !== undefined || !isKnown) {
      clearFailure(record)
      this.#records.set(key, { ...record })
    }
    return grantOf(key, record)
  }

  /** Writes a copy of the record, because the LRU does not measure the same object again. */
  #writeRecord(key: string, record: MemoryRecord): void {
    this.#sweepSome()
    this.#records.set(key, { ...record })
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

  /** Uses `#lastFence`, since a purged record may be created again within one tick of the clock. */
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

/** Whether the request that failed differs from this one. Then its failure is not shared. */
function isOther({ like }: Failure, request: LookupRequest): boolean {
  return like !== undefined && request.like !== undefined && request.like !== like
}

function outdate(
  record: MemoryRecord,
  { fence, soft }: NonNullable<LookupRequest['outdated']>,
  now: number,
): void {
  const { slot } = record
  if (slot?.type !== 'copy' || slot.held.fence !== fence) return
  if (soft) makeStale(slot, now)
  else record.slot = undefined
}

function makeStale(slot: L1Copy, now: number): void {
  slot.held = staleFrom(slot.held, now)
  slot.nextLookupAt = 0
}
