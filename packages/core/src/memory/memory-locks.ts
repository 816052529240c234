// The lock store in one process: the protocol of lua/*-lock-1.lua on a Map. Only this process can
// be in the lock queue.

import { ANY_FENCE, type Grant } from '../ports/grant.ts'
import type {
  LockHooks,
  LockRelease,
  LockReply,
  LockRequest,
  LockStore,
} from '../ports/lock-store.ts'
import type { LockInfo } from '../ports/store-operator.ts'
import { ExpiringMap, ProcessRecords } from './expiring-map.ts'

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

const KEEP_MS = 60_000

export class MemoryLocks extends ProcessRecords<LockHooks> implements LockStore {
  protected readonly user = 'createLocks'
  readonly #locks = new ExpiringMap<Lock>(this)

  async acquire(key: string, { token, leaseMs, queue }: LockRequest): Promise<LockReply> {
    const now = this.now()
    const lock = this.#locks.get(key) ?? new Lock()
    const held = lock.token !== '' && now < lock.until
    if (held && lock.token === token) return granted(key, lock, now)
    if (held) {
      // This process is in the queue only once, with the token of its newest request.
      if (queue) lock.queued = { token, leaseMs }
      return { status: 'busy', forMs: lock.until - now }
    }
    lock.expiresAt = now + KEEP_MS
    this.#locks.set(key, lock)
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

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const now = this.now()
    return grants.map((grant) => {
      const lock = this.#ours(grant)
      if (lock !== undefined) hold(lock, now + leaseMs)
      return lock !== undefined
    })
  }

  async release(grant: Grant, next?: Queued): Promise<LockRelease> {
    const { key } = grant
    const lock = this.#ours(grant)
    if (lock === undefined) return { status: 'lost' }
    // This process is in the queue only once, with the token of its newest request.
    const queued = next ?? lock.queued
    lock.token = ''
    lock.queued = undefined
    if (queued === undefined) {
      this.#locks.delete(key)
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
    const lock = this.#locks.get(key)
    if (lock !== undefined) lock.queued = undefined
  }

  async close(): Promise<void> {
    this.#locks.clear()
  }

  /** For operators. */
  keys(): Iterable<string> {
    return this.#locks.keys()
  }

  /** For operators. A fence is the moment of its grant in microseconds of the wall clock. */
  inspect(key: string, wallMs: number): LockInfo | undefined {
    const lock = this.#locks.get(key)
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

  #ours({ key, token, fence }: Grant): Lock | undefined {
    const lock = this.#locks.get(key)
    const isNewest = fence === ANY_FENCE || lock?.fence === fence
    return lock?.token === token && isNewest ? lock : undefined
  }

  #grant(lock: Lock, token: string, until: number): void {
    lock.fence = this.fences.next()
    lock.token = token
    hold(lock, until)
  }
}

function hold(lock: Lock, until: number): void {
  lock.until = until
  lock.expiresAt = until + KEEP_MS
}

function granted(key: string, lock: Lock, now: number): LockReply {
  return { status: 'granted', grant: grantOf(key, lock), forMs: lock.until - now }
}

function grantOf(key: string, lock: Lock): Grant {
  return { key, token: lock.token, fence: lock.fence }
}
