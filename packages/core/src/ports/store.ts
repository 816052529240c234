// The shared tier: one record per key, holding the frame, its lifetimes, the lease and the fence.
// The doc comments are the contract; `@stampede/testkit` runs it against every implementation.

import type { Clock } from './clock.ts'
import type { Grant } from './grant.ts'
import type { IdempotencyStore } from './idempotency-store.ts'
import type { LockStore } from './lock-store.ts'

export type { Grant }

/** How long an entry lives. All durations count from the moment the store writes it. */
export interface Lifetimes {
  /** Logical TTL: fresh for this long. */
  readonly freshMs: number
  /** RFC 5861 stale-while-revalidate, after `freshMs`. */
  readonly staleWhileRevalidateMs: number
  /** RFC 5861 stale-if-error, after `freshMs`. */
  readonly staleIfErrorMs: number
  /** Physical TTL: when the store drops the record. Never less than the three above allow. */
  readonly physicalMs: number
}

/** A frame as the store holds it. Durations are relative to the reply, so no clocks are compared. */
export interface StoredFrame {
  /** Opaque to the store. */
  readonly frame: Uint8Array
  /** The fence this frame was committed under. */
  readonly fence: string
  readonly ageMs: number
  /** Negative once stale. */
  readonly freshForMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
}

/** Why the last fill failed, as the fleet shares it. */
export interface Failure {
  /** HTTP status to answer with, 500 to 599. */
  readonly status: number
  readonly message: string
}

export interface LookupRequest {
  readonly token: string
  /** 0: only read. The lease is not taken, nobody is registered, and a miss is `busy` for 0 ms. */
  readonly leaseMs: number
  /** Fence of a copy the caller has; its frame is then not sent again (`same`). */
  readonly knownFence?: string
  /** Fence of a frame the caller could not read; the store drops it, and answers as if it were not there. */
  readonly unreadableFence?: string
}

/**
 * - `fresh`: use it.
 * - `stale`: inside its stale-while-revalidate window; with a `grant` the caller is the one to refresh it.
 * - `leased`: fill it. `stale` is an entry past that window, for stale-if-error only.
 * - `busy`: another holds the lease; this process is registered and will be woken.
 * - `pass`: known not to be shareable for `forMs`: everybody runs their own origin.
 * - `failed`: the last fill failed, and others waited for it; no new attempt for `forMs`.
 */
export type LookupReply =
  | { readonly status: 'fresh'; readonly stored: StoredFrame | 'same' }
  | {
      readonly status: 'stale'
      readonly stored: StoredFrame | 'same'
      readonly grant?: Grant
      /** Without a grant: how long the present holder's lease has left. */
      readonly busyForMs: number
    }
  | { readonly status: 'leased'; readonly grant: Grant; readonly stored?: StoredFrame | 'same' }
  | { readonly status: 'busy'; readonly busyForMs: number }
  | { readonly status: 'pass'; readonly forMs: number }
  | {
      readonly status: 'failed'
      readonly forMs: number
      readonly failure: Failure
      readonly stored?: StoredFrame | 'same'
    }

/** `fenced`: a newer grant or a purge came first; nothing was written. */
export type CommitReply = 'committed' | 'fenced'

/** What a store tells core. Hints only: losing, repeating or reordering them is harmless. */
export interface StoreHooks {
  readonly clock: Clock
  /** The record of this key changed while this process was registered as waiting. */
  onWake(key: string): void
  /** This key was purged somewhere in the fleet. */
  onPurge(key: string, options: { soft: boolean }): void
  /** Messages may have been lost: forget copies, and let everybody who waits look again. */
  onGap(): void
  /** Nothing can be heard now: nobody may count on being woken. */
  onLost(): void
  /** Something failed behind the scenes; `operation` names what. */
  onError(operation: string, error: unknown): void
}

export interface StampedeStore {
  /** Shown in events and errors: `memory`, `redis`. */
  readonly name: string
  /** Locks on the same server and connections. */
  readonly locks: LockStore
  /** Records of idempotency keys on the same server and connections. */
  readonly idempotency: IdempotencyStore
  /**
   * Whether purges made elsewhere are heard now; while not, copies in memory are not trusted for long. Left out by a store
   * that serves one process.
   */
  readonly hearing?: boolean
  /** Called once, by createStampede. A store serves one Stampede. */
  attach(hooks: StoreHooks): void
  /** Reads, and takes the lease if the entry needs filling and nobody holds it. One round trip. */
  lookup(key: string, request: LookupRequest): Promise<LookupReply>
  /** Writes, ends the lease and wakes those who wait, in one step. One round trip. */
  commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply>
  /** Remembers the key as hit-for-pass, drops its entry, ends the lease and wakes those who wait. */
  pass(grant: Grant, passMs: number): Promise<CommitReply>
  /**
   * Ends the lease and wakes those who wait. With a failure that somebody waited for, no new attempt for `backoffMs`: a process that was
   * told `busy`, or, as `awaited` says, somebody in the holder's own. Else the next one tries at once.
   */
  fail(
    grant: Grant,
    failure: Failure | undefined,
    backoffMs: number,
    awaited?: boolean,
  ): Promise<CommitReply>
  /** Extends leases still held; one reply per grant: is it still ours? */
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  /**
   * Of the key and all its variants (`ports/key.ts`). Hard: drops the entries. Soft: makes them stale. Both void
   * every fill in flight, fleet-wide.
   */
  purge(key: string, options: { soft: boolean }): Promise<void>
  /** Ends connections and timers. */
  close(): Promise<void>
}
