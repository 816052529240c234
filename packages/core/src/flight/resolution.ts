// The types of `resolve`: Caller and Lead go in, FillResult and Resolution come out.

import type { AsyncResource } from 'node:async_hooks'
import type { HeldEntry, StoredEntry } from '../entry/entry.ts'
import type { Detail } from '../http/cache-status-details.ts'
import type { CommitReply, Failure, Grant, Lifetimes, Position } from '../ports/store.ts'
import type { Live, LiveReader } from '../stream/live-body.ts'
import type { FreeSlot } from './origin-slots.ts'

/** The parameters of one run of the origin. */
export interface Lead {
  /** Empty if there is no lease, for example because the store is unavailable. */
  readonly fence: string
  /** The newest purge that this process knew when the fill began. */
  readonly asOf: Position
  /**
   * The entry from before the fill: served if the origin fails, or confirmed by a 304. A purge
   * during the run makes it undefined, so read this property only when you need the entry.
   */
  readonly previous: HeldEntry | undefined
  /** Whether `originTimeoutMs` has passed. */
  readonly hasTimedOut: boolean
  /** Aborted when `originTimeoutMs` has passed. */
  readonly signal: AbortSignal
  /** Shows a response to the waiters while its body comes. False: they must not get it. */
  readonly publish?: ((live: Live) => boolean) | undefined
  /**
   * Only without a lease: keeps the concurrency slot after the result until the handler has ended,
   * but at most for `originTimeoutMs`. The returned function frees the slot.
   */
  readonly keepSlot?: (() => FreeSlot) | undefined
}

/** The result of one run of the origin. */
export type FillResult =
  | {
      readonly type: 'store'
      readonly entry: StoredEntry
      readonly lifetimes: Lifetimes
      /**
       * When the response head arrived, or the factory ended. Age and lifetimes count from here.
       */
      readonly bornAt: number
      /** Called with the store's reply to the commit. Undefined: the store is unavailable. */
      readonly onCommit?: ((reply: CommitReply | undefined) => void) | undefined
    }
  /** The origin confirmed `previous`. `entry` has its body; the other parts may be new. */
  | {
      readonly type: 'not-modified'
      readonly previous: HeldEntry
      readonly entry: StoredEntry
      readonly lifetimes: Lifetimes
      readonly bornAt: number
    }
  /**
   * The response is not storable, so each waiter runs the origin itself. `remember`: the resource
   * is the reason (a cookie, `private`), so the key becomes hit-for-miss. Otherwise the request may
   * be the reason (429, 401), and the key stays as it is for other requests.
   */
  | { readonly type: 'pass'; readonly reason: Detail; readonly remember: boolean }
  | { readonly type: 'failure'; readonly failure: Failure; readonly error: unknown }
  /**
   * The run has no usable result and says nothing about the origin, so the next waiter leads.
   * `clientLeft`: the client of this run left, and many handlers abort their work then.
   */
  | { readonly type: 'abandoned'; readonly clientLeft?: true }

/** One request or getOrSet call. Its `lead` and `refresh` never reject. */
export interface Caller {
  /** Accepts a response whose body is still coming. */
  readonly acceptsLive?: boolean
  /** Whether the caller accepts this stale entry while the fill is late. */
  acceptsStale?(held: HeldEntry): boolean
  /** Whether the client has left. */
  isGone?(): boolean
  /**
   * Digest of target and header fields, equal if a handler cannot tell two requests apart. Absent:
   * all calls are equal.
   */
  requestDigest?(): string
  /** Whether the request has a condition or a range. A fill hides both from the handler. */
  hasConditionOrRange?(): boolean
  /** Async context of the caller, for its runs. Set if the caller's lookup is traced. */
  scope?: AsyncResource | undefined
  /** Runs the origin, and gives this caller its response or value. */
  lead(lead: Lead): Promise<FillResult>
  /** Runs the origin in the background, for no client. */
  refresh(lead: Lead): Promise<FillResult>
}

/** Why the previous entry is served: softTimeoutMs has passed, or no concurrency slot is free. */
export type LateReason = 'soft-timeout' | 'origin-queue'

/** How one request or call ends. */
export type Resolution =
  | {
      readonly type: 'hit'
      readonly held: HeldEntry
      readonly stale: boolean
      /** `fill`: the caller waited for a fill in this process. */
      readonly from: 'l1' | 'l2' | 'fill'
    }
  /** The fill is late, so the previous entry is served. */
  | { readonly type: 'late'; readonly previous: HeldEntry; readonly why: LateReason }
  /** The leader's response, while it comes. Read `chunks` to the end, or call `return()`. */
  | {
      readonly type: 'live'
      readonly held: Live['held']
      readonly chunks: LiveReader
      readonly length: number | undefined
    }
  /** This caller led, and has its response or value from its own run. */
  | { readonly type: 'led'; readonly result: FillResult }
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
  | { readonly type: 'timed-out'; readonly previous: HeldEntry | undefined }
  /** The client left. */
  | { readonly type: 'gone' }

/**
 * The resolution for all waiters of a flight. `again`: there is none, and the flight looks up
 * again.
 */
export type Shared = Resolution | 'again'

export interface LeasedFill {
  readonly grant: Grant
  /**
   * Sequence number of L1's last purge before the lookup. If the key was purged since then, L1
   * refuses the entry.
   */
  readonly since: number
  readonly previous: HeldEntry | undefined
}
