// The lock store in one process: the protocol of lua/*-lock-1.lua on a Map. Only this process can
// be in the lock queue.

import type { Grant } from '../ports/grant.ts'
import type {
  LockHooks,
  LockRelease,
  LockReply,
  LockRequest,
  LockStore,
} from '../ports/lock-store.ts'
import type { LockInfo } from '../ports/store-operator.ts'
import { KEEP_MS, LeasedRecords } from './expiring-map.ts'

class Lock {
  fence = '0'
  token = ''
  until = 0
  /**
   * Moment at which the record is dropped, as in Redis, unless its lock is renewed or acquired
   * again.
   */
  expiresAt = 0
  queued: Queued | undefined
}

type Queued = Pick<LockRequest, 'token' | 'leaseMs'>

export class MemoryLocks extends LeasedRecords<LockHooks, Lock> implements LockStore {
  protected readonly user = 'createLocks'

  async acquire(key: string, { token, leaseMs, queue }: LockRequest): Promise<LockReply> {
    const now = this.now()
    const lock = this.records.get(key) ?? new Lock()
    const held = lock.token !== '' && now < lock.until
    if (held && lock.token === token) return granted(key, lock, now)
    if (held) {
      // This process is in the queue only once, with the token of its newest request.
      if (queue) lock.queued = { token, leaseMs }
      return { status: 'busy', forMs: lock.until - now }
    }
    lock.expiresAt = now + KEEP_MS
    this.records.set(key, lock)
    const next = lock.queued
    lock.queued = undefined
    if (next !== undefined && !queue) {
      // A request that does not join the queue must not overtake the queue.
      this.#handOver(key, lock, next, now)
      return next.token === token
        ? granted(key, lock, now)
        : { status: 'busy', forMs: next.leaseMs }
    }
    this.#grant(lock, token, now + leaseMs)
    return granted(key, lock, now)
  }

  async release(grant: Grant, next?: Queued): Promise<LockRelease> {
    const { key } = grant
    const lock = this.ours(grant)
    if (lock === undefined) return { status: 'lost' }
    // This process is in the queue only once, with the token of its newest request.
    const queued = next ?? lock.queued
    lock.token = ''
    lock.queued = undefined
    if (queued === undefined) {
      this.records.delete(key)
      return { status: 'released' }
    }
    const now = this.now()
    if (queued !== next) {
      this.#handOver(key, lock, queued, now)
      return { status: 'released', busyForMs: queued.leaseMs }
    }
    this.#grant(lock, next.token, now + next.leaseMs)
    return { status: 'released', granted: { grant: grantOf(key, lock), forMs: next.leaseMs } }
  }

  async leave(key: string): Promise<void> {
    const lock = this.records.get(key)
    if (lock !== undefined) lock.queued = undefined
  }

  /** For operators. A fence is the moment of its grant in microseconds of the wall clock. */
  inspect(key: string, wallMs: number): LockInfo | undefined {
    const lock = this.records.get(key)
    const remainingMs = lock?.token ? Math.max(0, lock.until - this.now()) : 0
    const queue = lock?.queued === undefined ? 0 : 1
    if (lock === undefined || (remainingMs === 0 && queue === 0)) return undefined
    const heldForMs = Math.max(0, wallMs - Math.floor(Number(lock.fence) / 1000))
    return {
      key,
      token: lock.token.slice(0, 6),
      fence: lock.fence,
      remainingMs,
      ...(remainingMs > 0 && { heldForMs }),
      queue,
    }
  }

  #handOver(key: string, lock: Lock, next: Queued, now: number): void {
    this.#grant(lock, next.token, now + next.leaseMs)
    const grant = grantOf(key, lock)
    queueMicrotask(() => this.hooks?.onGrant(grant, next.leaseMs))
  }

  #grant(lock: Lock, token: string, until: number): void {
    lock.fence = this.fences.next()
    lock.token = token
    lock.until = until
    lock.expiresAt = until + KEEP_MS
  }
}

function granted(key: string, lock: Lock, now: number): LockReply {
  return { status: 'granted', grant: grantOf(key, lock), forMs: lock.until - now }
}

function grantOf(key: string, lock: Lock): Grant {
  return { key, token: lock.token, fence: lock.fence }
}
