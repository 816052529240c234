// A store of the protocol of lua/ in this process, for tests of the engine without Redis. The store
// contract runs on it too. Nothing is evicted or swept.

import { optionError, storeInUse } from '../errors.ts'
import { MemoryIdempotency } from '../memory/memory-idempotency.ts'
import { MemoryLocks } from '../memory/memory-locks.ts'
import { MemoryOperator } from '../memory/memory-operator.ts'
import { ANY_FENCE } from '../ports/grant.ts'
import { groupOf } from '../ports/key.ts'
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

interface Entry {
  readonly frame: Uint8Array
  readonly fence: string
  readonly writtenAt: number
  readonly lifetimes: Lifetimes
  staleAt: number
}

interface Item {
  fence: number
  token: string
  leaseUntil: number
  waiting: boolean
  retryAt: number
  failure: Failure | undefined
  passUntil: number
  entry: Entry | undefined
}

const NEW: Item = {
  ...{ fence: 0, token: '', leaseUntil: 0, waiting: false, retryAt: 0, failure: undefined },
  ...{ passUntil: 0, entry: undefined },
}

export class RecordStore implements StampedeStore {
  readonly locks: MemoryLocks = new MemoryLocks()
  readonly idempotency: MemoryIdempotency = new MemoryIdempotency()
  readonly operator: StampedeStore['operator']
  readonly name: string = 'records'
  readonly hasTimeBudget = true
  readonly isAvailable = true
  readonly confirmedAt: number = Number.POSITIVE_INFINITY
  readonly #items = new Map<string, Item>()
  readonly #maxBytes: number
  #lastFence = 0
  #position = 0
  #hooks: StoreHooks | undefined

  /** `maxBytes`: larger frames are refused. */
  constructor(maxBytes: number = Number.POSITIVE_INFINITY) {
    if (!(maxBytes > 0))
      throw optionError('RecordStore: maxBytes', maxBytes, 'use a number above 0')
    this.#maxBytes = maxBytes
    this.operator = new MemoryOperator(this)
  }

  attach(hooks: StoreHooks): void {
    if (this.#hooks !== undefined) throw storeInUse('createStampede')
    this.#hooks = hooks
  }

  get clock(): StoreHooks['clock'] | undefined {
    return this.#hooks?.clock
  }

  get position(): number {
    return this.#position
  }

  async lookup(key: string, request: LookupRequest): Promise<LookupReply> {
    const now = this.#now()
    const item = this.#items.get(key) ?? { ...NEW }
    const { outdated, leaseMs, token } = request
    if (outdated !== undefined && item.entry?.fence === outdated.fence) {
      if (outdated.soft) item.entry.staleAt = Math.min(item.entry.staleAt, now)
      else item.entry = undefined
    }
    const stored = storedOf(item.entry, now, request.knownFence)
    if (stored !== undefined && stored.freshForMs > 0) return { status: 'fresh', stored }
    const isHeld = item.token !== '' && now < item.leaseUntil
    const mayLease = leaseMs > 0 && (!isHeld || item.token === token)
    const passForMs = item.passUntil - now
    const isStale = stored !== undefined && -stored.freshForMs < stored.staleWhileRevalidateMs
    if (passForMs > 0 && isStale) return { status: 'stale', stored, busyForMs: passForMs }
    const kept = stored && { stored }
    if (passForMs > 0 && !mayLease) return { status: 'pass', forMs: passForMs, ...kept }
    const { failure, retryAt } = item
    if (passForMs <= 0 && failure && now < retryAt && !isOther(failure, request)) {
      return { status: 'failed', failure, forMs: retryAt - now, ...kept }
    }
    if (!mayLease) {
      if (leaseMs > 0) item.waiting = true
      const busyForMs = leaseMs > 0 ? Math.max(0, item.leaseUntil - now) : 0
      return isStale ? { status: 'stale', stored, busyForMs } : { status: 'busy', busyForMs }
    }
    if (!isHeld) {
      item.fence = this.#nextFence(item.fence)
      Object.assign(item, { token, leaseUntil: now + leaseMs, failure: undefined, retryAt: 0 })
      this.#items.set(key, item)
    }
    const grant = { key, token: item.token, fence: String(item.fence) }
    if (passForMs > 0) return { status: 'pass', forMs: passForMs, grant, ...kept }
    if (isStale) return { status: 'stale', stored, grant, busyForMs: 0 }
    return { status: 'leased', grant, ...kept }
  }

  async commit(
    grant: Grant,
    frame: Uint8Array,
    lifetimes: Lifetimes,
  ): Promise<CommitReply | 'too-large'> {
    const isRepeat = this.#items.get(grant.key)?.entry?.fence === grant.fence
    const isTooLarge = frame.byteLength > this.#maxBytes
    const reply = this.#end(grant, (item, now) => {
      item.passUntil = 0
      const staleAt = now + lifetimes.freshMs
      const entry = { frame, fence: grant.fence, writtenAt: now, lifetimes, staleAt }
      item.entry = isTooLarge ? undefined : entry
    })
    if (reply === 'fenced') return isRepeat ? 'committed' : 'fenced'
    return isTooLarge ? 'too-large' : reply
  }

  async pass(
    grant: Grant,
    passMs: number,
    mayBeFirst: boolean | 'keep' | 'skip' = false,
  ): Promise<CommitReply | 'first'> {
    let isFirst = false
    const reply = this.#end(grant, (item, now) => {
      if (mayBeFirst === 'skip') {
        item.passUntil = now + passMs
        return
      }
      isFirst = mayBeFirst !== false && item.passUntil === 0
      const kept = isFirst && mayBeFirst === 'keep' ? item.entry : undefined
      const entry = kept && onlyForErrors(kept, now)
      Object.assign(item, { entry, passUntil: isFirst ? now : now + passMs })
    })
    return isFirst ? 'first' : reply
  }

  async fail(
    grant: Grant,
    failure: Failure | undefined,
    backoffMs: number,
    awaited = false,
  ): Promise<CommitReply> {
    return this.#end(grant, (item, now) => {
      if (failure === undefined || backoffMs === 0 || !(awaited || item.waiting)) return
      Object.assign(item, { failure, retryAt: now + backoffMs })
    })
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return grants.map((grant) => {
      const item = this.#itemOf(grant)
      if (item !== undefined) item.leaseUntil = this.#now() + leaseMs
      return item !== undefined
    })
  }

  async purge(group: string, { soft }: { soft: boolean }): Promise<void> {
    for (const [key, item] of this.#items) {
      if (groupOf(key) !== group) continue
      if (soft && item.entry !== undefined) {
        item.entry.staleAt = Math.min(item.entry.staleAt, this.#now())
        Object.assign(item, { failure: undefined, retryAt: 0, passUntil: 0 })
        item.fence = this.#nextFence(item.fence)
        this.#endLease(key, item)
      } else {
        this.#items.delete(key)
        if (item.waiting) this.#wake(key)
      }
    }
    this.#hooks?.onPurge(group, { soft })
  }

  async mark(subjects: string | readonly string[], { soft }: { soft: boolean }): Promise<void> {
    for (const subject of [subjects].flat()) {
      this.#position = Math.max(this.#position + 1, this.#micros())
      this.#hooks?.onMark({ subject, soft, position: this.#position, agoMs: 0 })
    }
  }

  async close(): Promise<void> {
    this.#items.clear()
  }

  #itemOf({ key, token, fence }: Grant): Item | undefined {
    const item = this.#items.get(key)
    const isOurs = item?.token === token && (fence === ANY_FENCE || String(item.fence) === fence)
    return isOurs ? item : undefined
  }

  #end(grant: Grant, how: (item: Item, now: number) => void): CommitReply {
    const item = this.#itemOf(grant)
    if (item === undefined) return 'fenced'
    Object.assign(item, { failure: undefined, retryAt: 0 })
    how(item, this.#now())
    this.#endLease(grant.key, item)
    return 'committed'
  }

  #endLease(key: string, item: Item): void {
    const { waiting } = item
    Object.assign(item, { token: '', leaseUntil: 0, waiting: false })
    if (waiting) this.#wake(key)
  }

  /** Uses `#lastFence`, since a purged record may be created again within one tick of the clock. */
  #nextFence(fence: number): number {
    this.#lastFence = Math.max(fence + 1, this.#lastFence + 1, this.#micros())
    return this.#lastFence
  }

  #wake(key: string): void {
    queueMicrotask(() => this.#hooks?.onWake(key))
  }

  #micros(): number {
    return Math.floor((this.#hooks?.clock.wallNow() ?? 0) * 1000)
  }

  #now(): number {
    return this.#hooks?.clock.now() ?? 0
  }
}

/** The entry without its freshness and its stale window for refreshes. */
function onlyForErrors(entry: Entry, now: number): Entry {
  const { staleWhileRevalidateMs, staleIfErrorMs } = entry.lifetimes
  const errorsMs = Math.max(staleWhileRevalidateMs, staleIfErrorMs)
  const windows = { staleWhileRevalidateMs: 0, staleIfErrorMs: errorsMs }
  const lifetimes = { ...entry.lifetimes, ...windows }
  return { ...entry, staleAt: Math.min(entry.staleAt, now), lifetimes }
}

/** Undefined if the entry is neither fresh nor in a stale window. */
function storedOf(
  entry: Entry | undefined,
  now: number,
  knownFence: string | undefined,
): StoredFrame | undefined {
  if (entry === undefined) return undefined
  const { frame, fence, writtenAt, staleAt } = entry
  const { staleWhileRevalidateMs, staleIfErrorMs, keepMs } = entry.lifetimes
  if (now >= staleAt + Math.max(staleWhileRevalidateMs, staleIfErrorMs, keepMs)) return undefined
  const rest = { staleWhileRevalidateMs, staleIfErrorMs, keepMs }
  const sent = knownFence === fence ? undefined : frame
  return { frame: sent, fence, ageMs: now - writtenAt, freshForMs: staleAt - now, ...rest }
}

/** Whether the request that failed differs from this one. Then its failure is not shared. */
function isOther({ like }: Failure, request: LookupRequest): boolean {
  return like !== undefined && request.like !== undefined && request.like !== like
}
