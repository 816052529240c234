// The types of the engine: the caller, its run of the origin, and how both end.

import type { AsyncResource } from 'node:async_hooks'
import type { HeldEntry, StoredEntry, StoredValue } from '../entry/entry.ts'
import type { FillReason, LateReason } from '../events.ts'
import type { FillConfig, Windows } from '../fill-options.ts'
import type { Detail } from '../http/cache-status.ts'
import type { FreeSlot, Slots } from '../lease/slots.ts'
import type {
  CommitReply,
  Failure,
  Grant,
  Lifetimes,
  LookupReply,
  Position,
} from '../ports/store.ts'

/** The timing options of one request or call. */
export interface Policy extends Omit<FillConfig, 'jitter' | keyof Windows> {
  readonly waitMs: number
  readonly originTimeoutMs: number
  readonly revalidate: 'background' | 'foreground'
}

/** A call with many keys, each of which is a caller. */
export interface CallerBatch {
  /** The slots for its runs without a lease. */
  readonly slots: Slots
  /** Called when a caller begins to wait for a run, of another caller or for a slot. */
  waits(caller: Caller): void
  /** Calls `step`, which begins a refresh, after the call got its stale entries. */
  later(step: () => void): void
}

/** One request or getOrSet call. */
export interface Caller {
  /** Async context for the runs of the caller, if they need one or if its lookup is traced. */
  scope?: AsyncResource | undefined
  /** Ends the traced lookup of the caller. */
  endLookup?: ((resolution: Resolution) => void) | undefined
  /** Makes the current async context that of a later run, which may begin in any other one. */
  captureContext?(): void
  /** The call with many keys to which the caller belongs. */
  readonly batch?: CallerBatch | undefined
  /** Gets the result of `find`, if `find` had none at once. The async context may be another. */
  answer(resolution: Resolution): void
  /**
   * Runs the origin, and calls `lead.end` with the result. `here`: gives this caller its response
   * or value. `behind`: runs in the background, for no client.
   */
  run(lead: Lead, where: 'here' | 'behind'): void
  /** Whether the caller accepts this stale entry if the fill takes too long. */
  acceptsStale?(held: HeldEntry): boolean
  /** Whether the client has left. */
  isGone?(): boolean
  /**
   * Digest of target and header fields, without those in the key and the ids of traces. Requests
   * with equal digests share a failure. Absent for `getOrSet`, where all calls of a key are equal.
   */
  requestDigest?(): string
  /** Whether the request has a condition or a range. A fill hides both from the handler. */
  hasConditionOrRange?(): boolean
}

/** One run of the origin, as its caller sees it. */
export interface Lead {
  /** Empty if there is no lease, for example because the store is unavailable. */
  readonly fence: string
  /** Position of the newest purge that this process knew when the fill began. */
  readonly asOf: Position
  /**
   * The entry from before the fill. The entry is served if the origin fails, and a 304 may confirm
   * it. A purge during the run makes this property undefined, so read it only when you need the
   * entry.
   */
  readonly previous: HeldEntry | undefined
  /** Whether `originTimeoutMs` has passed. */
  readonly hasTimedOut: boolean
  /** Aborted when `originTimeoutMs` has passed. */
  readonly signal: AbortSignal
  /**
   * Defined only without a lease. Call it if the handler still runs after the fill has its result.
   * It takes a concurrency slot for the handler, for at most `originTimeoutMs`. The returned
   * function frees the slot.
   */
  readonly keepSlot?: (() => FreeSlot) | undefined
  /**
   * Called at `originTimeoutMs`. Set by a caller that must be answered then, while its run goes on.
   */
  onTimeout: ((result: FillResult) => void) | undefined
  /** Ends the run. Only the first call counts. */
  end(result: FillResult): void
}

/** The result of one run of the origin. */
export type FillResult =
  /** A new entry, or `previous` with new parts after the origin confirmed it (304). */
  | {
      readonly type: 'store'
      readonly entry: StoredEntry
      readonly lifetimes: Lifetimes
      /**
       * Time at which the response head arrived, or at which the factory ended. Age and lifetimes
       * count from this time.
       */
      readonly bornAt: number
      /** Called with the store's reply to the commit, or undefined if the store is unavailable. */
      readonly onCommit?: ((reply: CommitReply | 'too-large' | undefined) => void) | undefined
    }
  /**
   * The response is not storable. If `remember` is true, the resource is probably the reason (a
   * cookie, `private`): after a second such response, each waiter runs the origin itself, and the
   * key becomes hit-for-miss. If it is false, the request may be the reason (429, 401), so the next
   * waiter leads.
   */
  | {
      readonly type: 'pass'
      readonly reason: Detail
      readonly remember: boolean
      /** The previous entry is dropped at once, because the response was a 304, 404 or 410. */
      readonly dropsPrevious?: boolean
    }
  | { readonly type: 'failure'; readonly failure: Failure; readonly error: unknown }
  | Skipped
  /**
   * The run has no usable result, but the origin may work, so the next waiter leads. `clientLeft`:
   * the client of this run left, and many handlers abort their work then.
   */
  | { readonly type: 'abandoned'; readonly clientLeft?: true }

/**
 * The value of a `getOrSet` run that is not to be stored. Calls of this process that wait for the
 * run get it, and an older entry stays. For `skipMs`, each process runs its own factory.
 */
export interface Skipped {
  readonly type: 'skipped'
  /** Undefined if the factory of `getOrSetMany` returned no value for the key. */
  readonly entry: StoredValue | undefined
  readonly skipMs: number
}

/** How one request or call ends. */
export type Resolution =
  | {
      readonly type: 'hit'
      readonly held: HeldEntry
      readonly stale: boolean
      /** `fill`: the caller waited for a fill in this process. */
      readonly from: 'l1' | 'l2' | 'fill'
    }
  /** The fill takes too long, so this request gets the previous entry. */
  | { readonly type: 'late'; readonly previous: HeldEntry; readonly why: LateReason }
  /** This caller was the leader. It has its response or value from its own run. */
  | { readonly type: 'led'; readonly result: FillResult }
  /** This call waited for a run that skipped its value. */
  | Skipped
  /** There is no result to share: this caller runs the origin itself. */
  | { readonly type: 'pass'; readonly reason: Detail }
  | {
      readonly type: 'failed'
      readonly failure: Failure
      readonly retryAfterMs: number
      /** The error itself, if the run was in this process. */
      readonly error: unknown
      readonly previous: HeldEntry | undefined
    }
  /** The caller has waited for `waitMs`. */
  | { readonly type: 'timed-out' }
  /** The client left. */
  | { readonly type: 'gone' }

/**
 * The resolution for all waiters of a flight. `again`: there is no resolution yet, and the flight
 * looks up again.
 */
export type Shared = Resolution | 'again'

/**
 * The right to fill a key: a lease from the store, or a concurrency slot of this process. Without a
 * store, the flight itself is the lease.
 */
export interface Lease {
  /** Undefined: the fill has a slot. */
  readonly grant: Grant | undefined
  readonly freeSlot?: FreeSlot
  /**
   * Sequence number of L1's last purge before the lookup. If the key was purged since then, L1 does
   * not accept the entry.
   */
  readonly since: number
  readonly previous: HeldEntry | undefined
  readonly reason: FillReason
  /** The entry that new requests are served during the fill. */
  readonly servedMeanwhile?: HeldEntry | undefined
}

/** An entry that was read without a lease. Its reader counts the hit, if it serves the entry. */
export interface ReadEntry {
  readonly held: HeldEntry
  readonly stale: boolean
  readonly from: 'l1' | 'l2'
}

/**
 * The reply with its entry decoded. An entry that cannot be decoded counts as absent. `isPurged`:
 * the lookup told the store that its entry was hard-purged.
 */
export type Found = LookupReply<HeldEntry> & { readonly isPurged?: boolean }
