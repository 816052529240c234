// Records in the memory of one process, and a Map in which they expire without a timer. A lookup
// drops the entry if it has expired. Each addition checks a few entries more.

import { storeInUse } from '../errors.ts'
import type { Clock } from '../ports/clock.ts'
import { ANY_FENCE, Fences, type Grant } from '../ports/grant.ts'
import { warnIfSeveralProcesses } from './several-processes.ts'

/** The function that attaches the records. */
type User = Parameters<typeof storeInUse>[0]

/** A part of the memory store. It has one user, whose clock it follows. */
export abstract class ProcessRecords<Hooks extends { readonly clock: Clock }> {
  readonly name = 'memory'
  protected hooks: Hooks | undefined
  /** Outlives each record, so that a new record of a key gets a higher fence. */
  protected readonly fences: Fences = new Fences({
    wallNow: () => this.hooks?.clock.wallNow() ?? 0,
  })
  protected abstract readonly user: User

  attach(hooks: Hooks): void {
    if (this.hooks !== undefined) throw storeInUse(this.user)
    if (this.user !== 'createStampede') warnIfSeveralProcesses(this.user)
    this.hooks = hooks
  }

  now(): number {
    return this.hooks?.clock.now() ?? 0
  }
}

/** A record with a lease. */
interface Leased extends Expiring {
  fence: string
  /** Token of the holder, or '' if there is none. */
  token: string
  until: number
  expiresAt: number
}

/** How long a record stays after its lease, as in Redis. */
export const KEEP_MS = 60_000

/** Records whose leases can be renewed. */
export abstract class LeasedRecords<
  Hooks extends { readonly clock: Clock },
  R extends Leased,
> extends ProcessRecords<Hooks> {
  protected readonly records: ExpiringMap<R> = new ExpiringMap<R>(this, (record) => {
    this.dropped(record)
  })

  /** For operators. */
  keys(): Iterable<string> {
    return this.records.keys()
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const until = this.now() + leaseMs
    return grants.map((grant) => {
      const record = this.ours(grant)
      if (record === undefined) return false
      record.until = until
      record.expiresAt = Math.max(record.expiresAt, until + KEEP_MS)
      return true
    })
  }

  async close(): Promise<void> {
    this.records.clear()
  }

  /** The record, if the holder of this grant has not ended its lease, and no other has it. */
  protected ours({ key, token, fence }: Grant): R | undefined {
    const record = this.records.get(key)
    const isNewest = fence === ANY_FENCE || record?.fence === fence
    return token !== '' && record?.token === token && isNewest ? record : undefined
  }

  /** Called with a record that has expired. */
  protected dropped(_record: R): void {}
}

interface Expiring {
  readonly expiresAt: number
}

/** Number of entries that each addition checks for expiry. */
const SWEPT_AT_ONCE = 4
/** Shortest time between two checks of all entries. */
const FULL_SWEEP_EVERY_MS = 1_000

export class ExpiringMap<V extends Expiring> {
  readonly #entries = new Map<string, V>()
  readonly #clock: { now(): number }
  readonly #onExpired: (entry: V) => void
  #cursor: Iterator<[string, V]> | undefined
  #sweptAt: number = Number.NEGATIVE_INFINITY

  /** `onExpired` is called with each entry that is dropped because it expired. */
  constructor(clock: { now(): number }, onExpired: (entry: V) => void = () => {}) {
    this.#clock = clock
    this.#onExpired = onExpired
  }

  /** Number of entries, including expired ones that were not found yet. */
  get size(): number {
    return this.#entries.size
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined || this.#clock.now() < entry.expiresAt) return entry
    this.#drop(key, entry)
    return undefined
  }

  set(key: string, entry: V): void {
    const now = this.#clock.now()
    for (let i = 0; i < SWEPT_AT_ONCE; i++) this.#sweepNext(now)
    this.#entries.set(key, entry)
  }

  /** All keys, including those of expired entries that were not found yet. */
  keys(): Iterable<string> {
    return this.#entries.keys()
  }

  /** Deletes an entry without a call of `onExpired`. */
  delete(key: string): void {
    this.#entries.delete(key)
  }

  /** Drops all expired entries, at most once per second. Returns whether it dropped any. */
  sweep(): boolean {
    const now = this.#clock.now()
    if (now < this.#sweptAt + FULL_SWEEP_EVERY_MS) return false
    this.#sweptAt = now
    const before = this.#entries.size
    for (const [key, entry] of this.#entries) if (now >= entry.expiresAt) this.#drop(key, entry)
    return this.#entries.size < before
  }

  clear(): void {
    this.#entries.clear()
  }

  #drop(key: string, entry: V): void {
    this.#entries.delete(key)
    this.#onExpired(entry)
  }

  #sweepNext(now: number): void {
    this.#cursor ??= this.#entries.entries()
    const { done, value } = this.#cursor.next()
    if (done === true) this.#cursor = undefined
    else if (now >= value[1].expiresAt) this.#drop(...value)
  }
}
