// What a request or call gives to `resolve`, and what it gets: Caller, Lead, FillResult, Resolution.

import type { HeldEntry, StoredEntry } from '../entry/entry.ts'
import type { Detail } from '../http/cache-status-details.ts'
import type { CommitReply, Failure, Grant, Lifetimes, Position } from '../ports/store.ts'
import type { Live, LiveReader } from '../stream/live-body.ts'
import type { Leave } from './origin-slots.ts'

/** What a leader is told when it is asked to run the origin. */
export interface Lead {
  /** Empty when the store could not be reached and no lease was given. */
  readonly fence: string
  /** Every purge up to this one was known before the origin was run. */
  readonly asOf: Position
  /**
   * What was there before: to be answered with if the origin fails, as long as it may be, and to be
   * found unchanged. Read it when it is needed: a purge takes it away.
   */
  readonly previous: HeldEntry | undefined
  /** `originTimeoutMs` is over. */
  readonly isLate: boolean
  /** Aborted when it is. */
  readonly signal: AbortSignal
  /** Shows an answer on its way to those who wait for it. False when they must not see it. */
  readonly publish?: ((live: Live) => boolean) | undefined
  /**
   * Without a lease: keeps the concurrency slot after the result, until the handler has ended. It
   * lasts `originTimeoutMs` at most.
   */
  readonly keepSlot?: (() => Leave) | undefined
}

/** What came of running the origin, for everybody else. */
export type FillResult =
  | {
      readonly type: 'store'
      readonly entry: StoredEntry
      readonly lifetimes: Lifetimes
      /**
       * Time of the response's head, or of the factory's end. Age and lifetimes count from here.
       */
      readonly bornAt: number
      /** Called with the store's reply to the commit. Undefined: the store could not be reached. */
      readonly onCommit?: ((reply: CommitReply | undefined) => void) | undefined
    }
  /** The body is that of `previous`, the rest of `entry` may be new. */
  | {
      readonly type: 'not-modified'
      readonly previous: HeldEntry
      readonly entry: StoredEntry
      readonly lifetimes: Lifetimes
      readonly bornAt: number
    }
  /**
   * May not be shared: everybody runs their own. Remembered if it is the resource that is so (it sets a cookie, it is
   * private), and not if it may have been this one request (429, 401): that must not turn the key off for others.
   */
  | { readonly type: 'pass'; readonly reason: Detail; readonly remember: boolean }
  | { readonly type: 'failure'; readonly failure: Failure; readonly error: unknown }
  /**
   * No usable result, and nothing is known about the origin: the next waiter runs it. `clientLeft`:
   * the client of this run left, and many handlers abort their work then.
   */
  | { readonly type: 'abandoned'; readonly clientLeft?: true }

/** One request or getOrSet call. Neither function ever rejects. */
export interface Caller {
  /** Can be answered with a body that is still coming. */
  readonly takesLive?: boolean
  /** May be answered with this, which is stale, in place of what is late. */
  takesStale?(held: HeldEntry): boolean
  /** Nobody hears the answer any more. */
  isGone?(): boolean
  /**
   * Digest of the request, equal for requests that a handler cannot tell apart. Absent: all alike.
   */
  likeness?(): string
  /** Whether the request has a condition or a range, which a fill hides from the handler. */
  hidesFields?(): boolean
  /** Runs the origin and answers this caller with what comes. */
  lead(lead: Lead): Promise<FillResult>
  /** Runs the origin for nobody in particular, behind an answer already given. */
  refresh(lead: Lead): Promise<FillResult>
}

/** Why something stale stands in: the origin takes longer than softTimeoutMs, or no place is free to run it. */
export type Late = 'soft-timeout' | 'origin-queue'

/** How one request or call ends. */
export type Resolution =
  | {
      readonly type: 'hit'
      readonly held: HeldEntry
      readonly stale: boolean
      /** `fill`: waited for another's fill. */
      readonly from: 'l1' | 'l2' | 'fill'
    }
  /** What was waited for is late. */
  | { readonly type: 'late'; readonly previous: HeldEntry; readonly why: Late }
  /** Another's answer, as it comes. The chunks are to be read, or returned. */
  | {
      readonly type: 'live'
      readonly held: Live['held']
      readonly chunks: LiveReader
      readonly length: number | undefined
    }
  /** This caller ran the origin, and has been answered by it. */
  | { readonly type: 'led'; readonly result: FillResult }
  /** Not shareable: run your own origin. */
  | { readonly type: 'pass'; readonly reason: Detail }
  | {
      readonly type: 'failed'
      readonly failure: Failure
      readonly retryAfterMs: number
      /** The error itself, where it happened in this process. */
      readonly error: unknown
      readonly previous: HeldEntry | undefined
    }
  /** `waitMs` is spent. */
  | { readonly type: 'timed-out'; readonly previous: HeldEntry | undefined }
  /** Its client went away. */
  | { readonly type: 'gone' }

/**
 * `again`: the commit was refused. The result is for the leader alone, and waiters look up again.
 */
export type Shared = Resolution | 'again'

export interface LeasedFill {
  readonly grant: Grant
  /** L1's sequence before the lookup: a purge since then refuses the L1 write. */
  readonly since: number
  readonly previous: HeldEntry | undefined
}
