// Locks for what is not a response. Same idea as the cache's record: one record per key with the lease and
// the fence in it, and who queues. `@stampede/locks` is the public face.

import type { Clock } from './clock.ts'
import type { Grant } from './grant.ts'

export interface LockRequest {
  /** 128 random bits naming this attempt; repeating it while it is held returns the same lease. */
  readonly token: string
  readonly leaseMs: number
  /** Register this process in the queue when the lock is held; `onGrant` tells when it is its turn. */
  readonly queue: boolean
}

/**
 * `forMs` counts from before the request was sent, never more than the store's own remaining time.
 * `busy`: for that long at most, or until `onGrant`.
 */
export type LockReply =
  | { readonly status: 'granted'; readonly grant: Grant; readonly forMs: number }
  | { readonly status: 'busy'; readonly forMs: number }

export interface LockRelease {
  readonly status: 'released' | 'lost'
  /** The lock came back at once to the `next` of this process: nobody else queued before it. */
  readonly granted?: { readonly grant: Grant; readonly forMs: number }
  /** How long another has it now, to begin with. */
  readonly busyForMs?: number
}

export interface LockHooks {
  readonly clock: Clock
  /** This process was next in the queue and has the lock now, for at least `forMs`. */
  onGrant(grant: Grant, forMs: number): void
  /** Grants may have been missed: everybody who waits asks again. */
  onGap(): void
  /** Nothing can be heard now. */
  onLost(): void
  onError(operation: string, error: unknown): void
}

export interface LockStore {
  readonly name: string
  attach(hooks: LockHooks): void
  /** One round trip. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE`; then the lease was not taken, or ends by itself. */
  acquire(key: string, request: LockRequest): Promise<LockReply>
  /** One reply per grant: is it still ours, and now for `leaseMs` more? */
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  /** A fence of `*` stands for any: the token alone names it. Frees the lock and hands it to the head of the queue. With `next`, this process queues again behind the others. */
  release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease>
  /** Nobody in this process waits for the lock any more. */
  leave(key: string): Promise<void>
  close(): Promise<void>
}
