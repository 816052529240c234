// What is remembered of one idempotency key: a record guarded by a lease, like everything here. Its states are
//
//   absent ─ begin ─▶ running ─ complete ─▶ completed (immutable)
//                       │  └──── release ──▶ released ─ begin ─▶ running, attempt + 1
//                       └ lease over, begin ─▶ running again (takeover), or uncertain until somebody settles it
//
// The doc comments are the contract; `@stampede/testkit` runs it against every implementation. Keys are opaque
// here: core hands over HMACs, so that no store ever sees what a client sent.

import type { Clock } from './clock.ts'
import type { Grant } from './grant.ts'

/**
 * What makes two requests the same. They are if either part is known of both and equal: `exact` for the bytes,
 * `canonical` for what they mean. Empty: not known.
 */
export interface Fingerprints {
  readonly exact: string
  readonly canonical: string
}

export interface BeginRequest {
  /** 128 random bits naming this attempt; repeating it while it runs returns the same grant. */
  readonly token: string
  readonly fingerprints: Fingerprints
  readonly leaseMs: number
  /** How long the record is kept, from now, unless it completes. */
  readonly retentionMs: number
  /** What becomes of a record whose holder let its lease run out. */
  readonly onLeaseExpired: 'takeover' | 'uncertain'
  /** After this many attempts in a row whose lease ran out, the record is uncertain. */
  readonly maxAttempts: number
  /** How long an uncertain record is kept. */
  readonly keepUncertainMs: number
  /** Register this process to be woken when a running attempt ends. */
  readonly wait: boolean
}

/**
 * - `begun`: run it. `isRecovery`: an earlier attempt's lease ran out, so part of the work may be done; `steps` are
 *   the results that earlier attempts kept.
 * - `mismatch`: the key is known with other fingerprints. Said before anything else.
 * - `busy`: another attempt holds the lease, for `forMs` at most; or the record is of a layout this version does not know.
 * - `completed`: with `frame`, kept for `forMs` more.
 * - `uncertain`: nobody knows whether it was done.
 */
export type BeginReply =
  | {
      readonly status: 'begun'
      readonly grant: Grant
      /** 1 for the first; counts every one that began. */
      readonly attempt: number
      readonly isRecovery: boolean
      readonly steps: ReadonlyMap<string, Uint8Array>
    }
  | { readonly status: 'mismatch' }
  | { readonly status: 'busy'; readonly forMs: number }
  | { readonly status: 'completed'; readonly frame: Uint8Array; readonly forMs: number }
  | { readonly status: 'uncertain' }

/** A frame that is made when it is read. */
export interface LazyFrame {
  /** What it takes in memory as yet. */
  readonly bytes: number
  encode(): Uint8Array
}

/** How an attempt ends, and how long that is remembered. `frame` is opaque to the store. */
export type Finish =
  | { readonly as: 'completed'; readonly frame: Uint8Array; readonly keepMs: number }
  /** Nothing was done: the next request runs it. Fingerprints, steps, attempt and fence are kept. */
  | { readonly as: 'released'; readonly keepMs: number }
  | { readonly as: 'uncertain'; readonly keepMs: number }

/** As `Finish`, for a store in this process. */
export interface LazyFinish {
  readonly as: 'completed'
  readonly frame: LazyFrame
  readonly keepMs: number
}

/**
 * - `finished`: also when this same finish was accepted before and its reply was lost. A lease that is over is no
 *   obstacle as long as nobody took over.
 * - `resurrected`: the record was gone (evicted, flushed) and was written again; only of `completed`.
 * - `stale`: another has it, or has finished it; nothing was written.
 */
export type FinishReply = 'finished' | 'resurrected' | 'stale'

/** An operator's word. */
export type Settlement = Exclude<Finish, { as: 'uncertain' }>

/** `refused`: an attempt is running, or it completed, and `force` was not given. */
export type SettleReply = 'settled' | 'absent' | 'refused'

export interface Inspection {
  /** `lapsed`: its lease is over, and nobody has come since. */
  readonly state: 'running' | 'lapsed' | 'completed' | 'released' | 'uncertain'
  readonly attempt: number
  readonly fence: string
  /** Of a running attempt; 0 otherwise. */
  readonly leaseForMs: number
  /** Since the first attempt began. */
  readonly ageMs: number
  /** Until the record is forgotten. */
  readonly keepForMs: number
  readonly steps: readonly string[]
  readonly frame: Uint8Array | undefined
}

/** What a store tells core. Hints only: losing, repeating or reordering them is harmless. */
export interface IdempotencyHooks {
  readonly clock: Clock
  /** An attempt that this process waited for has ended. */
  onWake(key: string): void
  /** An operator settled this record: forget copies of it. */
  onSettled(key: string): void
  /** Messages may have been lost, or the server was away and is back. */
  onGap(): void
  /** Commands can be sent again, or to another server. What could not be stored is tried at once. */
  onBack(): void
  onLost(): void
  onError(operation: string, error: unknown): void
}

export interface IdempotencyStore {
  readonly name: string
  /** Whether messages from elsewhere are heard now; left out by a store that serves one process. */
  readonly hearing?: boolean
  /** Called once, before anything else, when idempotency is first used. */
  attach(hooks: IdempotencyHooks): void
  /** One round trip, one atomic step: begins an attempt, or says why not. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE`. */
  begin(key: string, request: BeginRequest): Promise<BeginReply>
  /** Extends leases; one reply per grant: is it still ours? */
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  /** Ends the attempt and wakes those who wait, in one step. `fingerprints` are for a record that was lost meanwhile. */
  finish(grant: Grant, finish: Finish, fingerprints: Fingerprints): Promise<FinishReply>
  /** Remembers the result of a part of a running attempt. */
  keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'>
  inspect(key: string): Promise<Inspection | undefined>
  /** Settles a record that is uncertain, lapsed or released; any with `force`. Voids the attempt that runs, and wakes. */
  settle(key: string, settlement: Settlement, options: { force: boolean }): Promise<SettleReply>
  close(): Promise<void>
}

/** A store in this process: it replies at once, and nothing is encoded before it is read. */
export interface LocalIdempotency {
  beginNow(key: string, request: BeginRequest): BeginReply
  finishNow(grant: Grant, finish: Finish | LazyFinish, fingerprints: Fingerprints): FinishReply
}
