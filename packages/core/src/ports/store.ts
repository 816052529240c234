// The interface of a store: one record per key with the frame, its lifetimes, the lease and the
// fence. The doc comments are the contract, and `@stampede/testkit` tests each implementation
// against it.

import type { Windows } from '../fill-options.ts'
import type { Clock } from './clock.ts'
import type { Grant } from './grant.ts'
import type { IdempotencyStore } from './idempotency-store.ts'
import type { LockStore } from './lock-store.ts'
import type { EntryTimes, StoreOperator } from './store-operator.ts'

export type { Grant }

/** Durations of an entry, counted from the call of `commit`. Its stale windows follow `freshMs`. */
export interface Lifetimes extends Windows {
  /** Logical TTL: how long the entry is fresh. */
  readonly freshMs: number
  /** Physical TTL: the store deletes the record after this time. Covers all durations above. */
  readonly physicalMs: number
}

/**
 * A stored frame with its times. Durations count from the moment of the reply, so clocks of two
 * machines are not compared.
 */
export interface StoredFrame extends EntryTimes {
  /**
   * The bytes, which the store does not parse. It may have compressed their body
   * (`compressibleBody`). Undefined: the caller already has this entry (`knownFence`).
   */
  readonly frame: Uint8Array | undefined
  /** The fence of the commit. */
  readonly fence: string
}

/** Why the last fill failed, shared with all processes. */
export interface Failure {
  /** HTTP status of the response, 500 to 599. */
  readonly status: number
  readonly message: string
  /**
   * Digest of the request whose run failed, at most 64 characters `A-Za-z0-9_-`. The failure is
   * shared only with requests of the same digest. Absent: it is shared with all requests.
   */
  readonly like?: string
}

/** A request for an entry, or for the lease to fill it. */
export interface LookupRequest {
  readonly token: string
  /**
   * Length of the lease. 0: the lookup only reads. It takes no lease, registers no waiter, and a
   * miss is `busy` for 0 ms.
   */
  readonly leaseMs: number
  /** Fence of the copy that the caller has. The store does not send the frame of that entry. */
  readonly knownFence?: string | undefined
  /**
   * An entry that the caller must not use, because its frame is invalid or one of its subjects was
   * purged since. The store drops the entry and replies as if it were absent. With `soft`, the
   * store makes the entry stale instead.
   */
  readonly outdated?: { readonly fence: string; readonly soft: boolean } | undefined
  /** Digest of this request. The store ignores a failure with another `like`. */
  readonly like?: string | undefined
  /**
   * Called if the lookup has to wait in a queue of this process before it is sent. `waitMs` counts
   * from then on.
   */
  readonly onQueued?: (() => void) | undefined
}

/**
 * - `fresh`: the entry can be used.
 * - `stale`: the entry is in its stale-while-revalidate window. With a `grant`, the caller
 *   refreshes it.
 * - `leased`: the caller fills the key. `stored` is an entry past its stale-while-revalidate
 *   window, for stale-if-error or revalidation.
 * - `busy`: another process holds the lease. This process is registered and gets a wake-up.
 * - `pass`: the key is hit-for-miss for `forMs`, so requests do not wait. With a `grant`, the
 *   caller's response may be stored, which ends the hit-for-miss. Without one, another run holds
 *   the lease. `stored` is an entry that `skip` kept, past its stale-while-revalidate window.
 * - `failed`: the last fill failed while other requests waited for it. The back-off ends in
 *   `forMs`.
 */
export type LookupReply<Stored = StoredFrame> =
  | { readonly status: 'fresh'; readonly stored: Stored }
  | {
      readonly status: 'stale'
      readonly stored: Stored
      readonly grant?: Grant | undefined
      /** Without a grant: how long the lease of the holder or the time of a `skip` still lasts. */
      readonly busyForMs: number
    }
  | { readonly status: 'leased'; readonly grant: Grant; readonly stored?: Stored | undefined }
  | { readonly status: 'busy'; readonly busyForMs: number }
  | {
      readonly status: 'pass'
      readonly forMs: number
      readonly grant?: Grant
      readonly stored?: Stored | undefined
    }
  | {
      readonly status: 'failed'
      readonly forMs: number
      readonly failure: Failure
      readonly stored?: Stored | undefined
    }

/** Gets the reply of an operation. */
export interface Receiver<T> {
  resolve(reply: T): void
  reject(error: unknown): void
}

/**
 * A method of a store of this repository, with a twin that gives its reply to a receiver as the
 * last argument. That saves two promises. The reply comes in a later turn, in any async context.
 * `of` is the method itself: a wrapper that copies the properties of the method has no twin.
 */
export interface Direct<A extends readonly unknown[], T> {
  (...args: A): Promise<T>
  readonly direct?: {
    (this: StampedeStore, ...args: [...A, Receiver<T>]): void
    readonly of?: unknown
  }
}

/** `fenced`: a newer grant or a purge came first, and nothing was written. */
export type CommitReply = 'committed' | 'fenced'

/**
 * Number of a purge in the order in which the store received the purges, the same for all
 * processes. An entry carries the newest position that its process knew when the fill began. If one
 * of its subjects is purged at a greater position, the entry is outdated in each process.
 */
export type Position = number

/** How long copies may be used after the process last knew that it missed no purge. */
export const CONFIRMED_FOR_MS = 5_000

/** A purge of all entries of a subject: a tag, cache group, path, route or everything. */
export interface Mark {
  readonly subject: string
  readonly soft: boolean
  readonly position: Position
  /** Time since the purge, on the store's clock. */
  readonly agoMs: number
}

/** Callbacks from a store to core. Core stays correct if calls are lost, repeated or reordered. */
export interface StoreHooks {
  readonly clock: Clock
  /** The record of this key changed while this process was registered as a waiter. */
  onWake(key: string): void
  /** A process purged this key. */
  onPurge(key: string, options: { soft: boolean }): void
  /** A process purged the entries of a subject. */
  onMark(mark: Mark): void
  /** Wake-ups may have been lost, so each waiter looks up again. Purges are still reported. */
  onGap(): void
  /**
   * Purges may have been lost, so core drops all copies. `floor` is the oldest known position: an
   * entry from before it may have been purged and is outdated.
   */
  onForget(floor: Position): void
  /** The connection for messages was lost, so wake-ups do not arrive. */
  onLost(): void
  /** A background operation failed. `operation` is its name. */
  onError(operation: string, error: unknown): void
}

/**
 * The store of one process, `memoryStore()`: locks, records of idempotency keys, and purges.
 * Entries are in the memory of the process only (L1).
 */
export interface MemoryStore {
  /** Name in events and errors, such as `memory` or `redis`. */
  readonly name: string
  /** Locks on the same server and connections. */
  readonly locks: LockStore
  /** Records of idempotency keys on the same server and connections. */
  readonly idempotency: IdempotencyStore
  /** Reads records, and shares reports of processes, for operators. */
  readonly operator: StoreOperator
  /**
   * Position of the newest purge that this process knows. A fill that begins now comes after that
   * purge.
   */
  readonly position: Position
  /**
   * Moment on the runtime's clock at which this process last knew that it missed no purge. Copies
   * may be used for `CONFIRMED_FOR_MS` after it. `Infinity` in a store of one process. `-Infinity`
   * before the first confirmation.
   */
  readonly confirmedAt: number
  /**
   * Whether each operation ends within a time budget of the store, also those of `locks` and
   * `idempotency`. Otherwise core rejects it with `ERR_STAMPEDE_STORE_UNAVAILABLE` if there is no
   * reply within 5 s, and ends the lease that a later reply grants.
   */
  readonly hasTimeBudget?: boolean
  /** False while operations fail at once, because the store did not reply a moment ago. */
  readonly isAvailable: boolean
  /** Called once, by `createStampede`. A store serves one object of `createStampede`. */
  attach(hooks: StoreHooks): void
  /**
   * Purges the key with all its variants (`ports/key.ts`). Hard: drops the entries. Soft: makes
   * them stale. After that, the store refuses the commit of each fill that began before the purge,
   * in all processes. Resolves when this process has applied the purge too.
   */
  purge(key: string, options: { soft: boolean }): Promise<void>
  /**
   * Purges all entries of a subject, or of each of several subjects. Up to 128 subjects are one
   * command, for any number of entries. Hard: they are outdated. Soft: they are stale. Resolves
   * when this process has applied all purges too.
   */
  mark(subjects: string | readonly string[], options: { soft: boolean }): Promise<void>
  /** Ends connections and timers. */
  close(): Promise<void>
}

/** A store that processes share: `redisStore(client)`. It has the entries as well. */
export interface StampedeStore extends MemoryStore {
  /** Bytes of the frames that this process has sent: before (`raw`) and after compression. */
  readonly written?: { readonly raw: number; readonly stored: number }
  /**
   * Reads the entry. Takes the lease if the entry is not fresh and no process holds it. One round
   * trip for a fresh entry, at most two for others, and one more if `confirmedAt` is too old.
   * Rejects if the store cannot find out which purges happened. If it rejects without a reply
   * (`mayHaveRun`), the lease may be taken all the same. Core then ends the lease by `fail`, with
   * `ANY_FENCE` in place of the fence.
   */
  lookup(key: string, request: LookupRequest): Promise<LookupReply>
  /**
   * Writes the entry, ends the lease and wakes the waiters, in one step. One round trip. A store
   * that cannot write in time rejects, and writes nothing later: the entry would be too old.
   * `too-large`: the lease has ended, but the store has no room for an entry of this size.
   * `awaited`: requests in the process of the holder wait for this commit.
   */
  commit(
    grant: Grant,
    frame: Uint8Array,
    lifetimes: Lifetimes,
    awaited?: boolean,
  ): Promise<CommitReply | 'too-large'>
  /**
   * Makes the key hit-for-miss for `passMs`, drops its entry, ends the lease and wakes the waiters.
   * `isFirst`: this process knows of no earlier response that could not be shared. If the store
   * remembers none of any process, the key does not become hit-for-miss, and the reply is `first`.
   * With `keep`, the entry then stays for stale-if-error and revalidation only: it is neither fresh
   * nor within stale-while-revalidate. The store remembers such a response for at least `passMs`,
   * until a commit or a purge of the key. Purges by tag, path or route do not change that.
   *
   * With `skip`, the key becomes hit-for-miss, and the entry stays with its lifetimes. Within its
   * stale-while-revalidate window, lookups get it as `stale` without a grant.
   */
  pass(
    grant: Grant,
    passMs: number,
    isFirst?: boolean | 'keep' | 'skip',
  ): Promise<CommitReply | 'first'>
  /**
   * Ends the lease and wakes the waiters. With `ANY_FENCE`, the token alone decides which lease. A
   * key that is hit-for-miss stays so. If other requests
   * waited for this fill, the failure is shared for `backoffMs`. Such requests are in a process
   * that got `busy`, or in the process of the holder (`awaited`). If no request waited, the next
   * lookup gets the lease at once.
   */
  fail(
    grant: Grant,
    failure: Failure | undefined,
    backoffMs: number,
    awaited?: boolean,
  ): Promise<CommitReply>
  /** Extends leases. Returns for each grant whether the store still has its lease. */
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  /**
   * Calls `run`, and sends the operations that it begins in as few commands as possible. Each
   * operation still has its own reply: one that fails does not change the others. Absent: each
   * operation is a command of its own.
   */
  together?(run: () => void): void
}

/** Begins operations on many keys. See `StampedeStore.together`. */
export function together(
  store: Pick<StampedeStore, 'together'> | undefined,
  run: () => void,
): void {
  if (store?.together === undefined) run()
  else store.together(run)
}
