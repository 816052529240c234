// The interface of a lock store: one record per lock with the lease, the fence and the lock queue.
// Users call it through `@stampede/locks`.

import type { Clock } from './clock.ts'
import type { Grant } from './grant.ts'

/** A request for a lock. */
export interface LockRequest {
  /**
   * 128 random bits for this request. A repeated request with the same token gets the same lease.
   */
  readonly token: string
  readonly leaseMs: number
  /**
   * Whether to put this process into the lock queue if the lock is held. `onGrant` is called when
   * the process gets the lock.
   */
  readonly queue: boolean
}

/**
 * - `granted`: this process has the lock for `forMs`, counted from the moment before it sent the
 *   request. The store counts from a later moment. So the caller never believes that it holds a
 *   lock whose lease has ended in the store.
 * - `busy`: another holder has the lock. Its lease ends in `forMs`, unless it is renewed. If this
 *   process is in the lock queue, `onGrant` may be called earlier.
 */
export type LockReply =
  | { readonly status: 'granted'; readonly grant: Grant; readonly forMs: number }
  | { readonly status: 'busy'; readonly forMs: number }

/** The reply to a release. */
export interface LockRelease {
  readonly status: 'released' | 'lost'
  /** The grant of `next`, if this process was first in the lock queue. */
  readonly granted?: { readonly grant: Grant; readonly forMs: number }
  /** If the lock went to another process: the length of its lease, unless it is renewed. */
  readonly busyForMs?: number
}

/** Functions that a lock store calls when messages arrive or may be lost. */
export interface LockHooks {
  readonly clock: Clock
  /** This process was first in the lock queue and now has the lock, for at least `forMs`. */
  onGrant(grant: Grant, forMs: number): void
  /** Messages with grants may have been lost, so each waiter sends its request again. */
  onGap(): void
  /** The connection for messages was lost. */
  onLost(): void
  onError(operation: string, error: unknown): void
}

/** The part of a store that grants locks. */
export interface LockStore {
  readonly name: string
  attach(hooks: LockHooks): void
  /**
   * Takes the lock or joins the lock queue. One round trip. Rejects with
   * `ERR_STAMPEDE_STORE_UNAVAILABLE`. If the command may have run (`mayHaveRun`), the lease may be
   * taken. The caller then releases it, with the fence `*`. A place in the queue needs no command:
   * the lock is granted to a token that no waiter has, and is released again.
   */
  acquire(key: string, request: LockRequest): Promise<LockReply>
  /** Extends leases to `leaseMs`. Returns for each grant whether the store still has its lease. */
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  /**
   * Frees the lock, or hands it over to the first process of the lock queue. With `next`, this
   * process first joins the end of the queue. If it is in the queue already, it keeps its position.
   * The fence `*` in `grant` matches each fence, so that only the token is compared.
   */
  release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease>
  /** Removes this process from the lock queue, because it has no waiter any more. */
  leave(key: string): Promise<void>
  close(): Promise<void>
}
