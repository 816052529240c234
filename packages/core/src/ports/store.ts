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
  /** After `freshMs`: how long it is kept to be compared with what the origin has by then (304). */
  readonly keepMs: number
  /** Physical TTL: when the store drops the record. Never less than the others allow. */
  readonly physicalMs: number
}

/** A frame as the store holds it. Durations are relative to the reply, so no clocks are compared. */
export interface StoredFrame {
  /** Opaque to the store. Undefined: it is the one the caller has (`knownFence`). */
  readonly frame: Uint8Array | undefined
  /** The fence of the commit. */
  readonly fence: string
  readonly ageMs: number
  /** Negative once stale. */
  readonly freshForMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
}

/** Why the last fill failed, as the fleet shares it. */
export interface Failure {
  /** HTTP status to answer with, 500 to 599. */
  readonly status: number
  readonly message: string
  /**
   * Digest of the request whose run failed: at most 64 characters `A-Za-z0-9_-`. The failure is
   * shared with requests of the same digest only. Absent: it is shared with all.
   */
  readonly like?: string
}

export interface LookupRequest {
  readonly token: string
  /** 0: only read. The lease is not taken, nobody is registered, and a miss is `busy` for 0 ms. */
  readonly leaseMs: number
  /** Fence of a copy the caller has; its frame is not sent again. */
  readonly knownFence?: string | undefined
  /**
   * An entry that the caller must not use: it could not be read, or was made before a purge of one of its tags. The store drops it
   * and answers as if it were not there; `soft` makes it stale instead.
   */
  readonly outdated?: { readonly fence: string; readonly soft: boolean } | undefined
  /** Digest of the request that would run. The store disregards a failure with another `like`. */
  readonly like?: string | undefined
  /** Wants the lease of a fresh entry too, to refresh it before its time; nobody is made to wait for that. */
  readonly early?: boolean | undefined
}

/**
 * - `fresh`: use it; with a `grant`, which only `early` asks for, the caller is the one to refresh it.
 * - `stale`: inside its stale-while-revalidate window; with a `grant` the caller is the one to refresh it.
 * - `leased`: fill it. `stored` is an entry past that window: for stale-if-error, or to be compared with what the origin has.
 * - `busy`: another holds the lease; this process is registered and will be woken.
 * - `pass`: hit-for-miss for `forMs`: requests do not wait. With a `grant` the caller's run may be
 *   stored, which ends the mark. Without one, another run holds the lease.
 * - `failed`: the last fill failed, and others waited for it; no new attempt for `forMs`.
 */
export type LookupReply =
  | { readonly status: 'fresh'; readonly stored: StoredFrame; readonly grant?: Grant }
  | {
      readonly status: 'stale'
      readonly stored: StoredFrame
      readonly grant?: Grant
      /** Without a grant: how long the present holder's lease has left. */
      readonly busyForMs: number
    }
  | { readonly status: 'leased'; readonly grant: Grant; readonly stored?: StoredFrame }
  | { readonly status: 'busy'; readonly busyForMs: number }
  | { readonly status: 'pass'; readonly forMs: number; readonly grant?: Grant }
  | {
      readonly status: 'failed'
      readonly forMs: number
      readonly failure: Failure
      readonly stored?: StoredFrame
    }

/** `fenced`: a newer grant or a purge came first; nothing was written. */
export type CommitReply = 'committed' | 'fenced'

/**
 * Purges are numbered by one clock for the whole fleet, in the order in which the store took them. What is made carries the position
 * up to which its maker knew them, so that any later one of its tags voids it, wherever it is by then.
 */
export type Position = number

/** How long copies in memory are trusted after it was last certain that no purge was missed. */
export const CONFIRMED_FOR_MS = 5_000

/** A purge of everything that was made under a subject: a tag, a path, a route, or all there is (`ports/subject.ts`). */
export interface Mark {
  readonly subject: string
  readonly soft: boolean
  readonly position: Position
  /** How long ago it was, on the store's own clock. */
  readonly agoMs: number
}

/** What a store tells core. Hints only: losing, repeating or reordering them is harmless. */
export interface StoreHooks {
  readonly clock: Clock
  /** The record of this key changed while this process was registered as waiting. */
  onWake(key: string): void
  /** This key was purged somewhere in the fleet. */
  onPurge(key: string, options: { soft: boolean }): void
  /** What was made under this subject was purged somewhere in the fleet. */
  onMark(mark: Mark): void
  /** Wake-ups may have been lost: let everybody who waits look again. Purges are told of nevertheless. */
  onGap(): void
  /** Purges may have been lost: forget every copy. What was made before `floor` may have been purged, and is void. */
  onForget(floor: Position): void
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
  /** The newest purge that was heard of here. What is begun now is newer than it, and than all before it. */
  readonly position: Position
  /**
   * As of when, on the runtime's clock, it is certain that no purge made elsewhere was missed; copies in memory are trusted for some
   * seconds (CONFIRMED_FOR_MS) after that. `Infinity` in a store that serves one process, `-Infinity` before anything was heard.
   */
  readonly confirmedAt: number
  /** Called once, by createStampede. A store serves one Stampede. */
  attach(hooks: StoreHooks): void
  /**
   * Reads, and takes the lease if the entry needs filling and nobody holds it. One round trip, or two for what is not fresh; one more, if
   * nothing was heard of purges for some seconds. Rejects if it cannot be known what was purged.
   */
  lookup(key: string, request: LookupRequest): Promise<LookupReply>
  /** Writes, ends the lease and wakes those who wait, in one step. One round trip. */
  commit(grant: Grant, frame: Uint8Array, lifetimes: Lifetimes): Promise<CommitReply>
  /**
   * Marks the key hit-for-miss for `passMs`, drops its entry, ends the lease and wakes the waiters.
   */
  pass(grant: Grant, passMs: number): Promise<CommitReply>
  /**
   * Ends the lease and wakes the waiters. A hit-for-miss mark stays. The failure is remembered for
   * `backoffMs` if anyone waited for it: a process that got `busy`, or (`awaited`) a caller in the
   * holder's process. Otherwise the next lookup gets the lease at once.
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
   * every fill in flight, fleet-wide. Resolves when this process has heard of it, too.
   */
  purge(key: string, options: { soft: boolean }): Promise<void>
  /**
   * Everything made under `subject` before now is void (hard) or stale (soft), however much it is: one command. Resolves when this
   * process has heard of it, too.
   */
  mark(subject: string, options: { soft: boolean }): Promise<void>
  /** Ends connections and timers. */
  close(): Promise<void>
}
