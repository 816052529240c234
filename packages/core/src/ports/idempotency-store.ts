// The interface of an idempotency store, which has one record per key. A lease guards the record.
// The states of a record are
//
//   absent ─ begin ─▶ running ─ complete ─▶ completed (immutable)
//                       │  └──── release ──▶ released ─ begin ─▶ running, attempt + 1
//                       └ lease over, begin ─▶ running again (takeover), or uncertain
//
// An operator settles an uncertain record. The doc comments are the contract, and
// `@stampede/testkit` tests each implementation against it. Keys are HMACs, so no store sees the
// keys that clients sent.

import type { Clock } from './clock.ts'
import type { Grant } from './grant.ts'

/**
 * Hashes that show whether two requests are the same. `exact` is the hash of the bytes, `canonical`
 * that of the parsed body. Two requests are the same if their `exact` hashes are equal, or if their
 * `canonical` hashes are. An empty hash is unknown and equals no hash, not even an empty one.
 */
export interface Fingerprints {
  readonly exact: string
  readonly canonical: string
}

/** A request to begin an attempt under an idempotency key. */
export interface BeginRequest {
  /**
   * 128 random bits for this attempt. A repeated `begin` with the same token gets the same grant.
   */
  readonly token: string
  readonly fingerprints: Fingerprints
  readonly leaseMs: number
  /** How long the record is kept from now on. The `keepMs` of `finish` replaces this time. */
  readonly retentionMs: number
  /**
   * After this many consecutive attempts whose lease expired, the record is uncertain. Until then,
   * the next attempt takes over.
   */
  readonly maxAttempts: number
  /** How long an uncertain record is kept. */
  readonly keepUncertainMs: number
  /** Whether to register this process for a wake-up when the running attempt ends. */
  readonly wait: boolean
  /** If set, the attempt runs in a transaction, without a lease. Only for `transactions: true`. */
  readonly transaction?: TransactionRules | undefined
}

/** How the transaction of an attempt begins. */
export interface TransactionRules<Tx = unknown> {
  /** Default: that of the database. */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable' | undefined
  /** Opens the transaction. Default: the store opens it on a connection of its pool. */
  readonly runner?: TransactionRunner<Tx> | undefined
}

/** Opens transactions by an ORM, so that the handler writes with the ORM. */
export interface TransactionRunner<Tx = unknown> {
  /**
   * Calls `run` once, in a new transaction. Commits when `run` resolves, and rolls back when it
   * rejects.
   */
  begin<T>(run: (tx: Tx) => Promise<T>): Promise<T>
  /** Runs one statement. Resolves with a flat array of its rows. */
  query(
    tx: Tx,
    text: string,
    values: readonly unknown[],
  ): Promise<ReadonlyArray<Readonly<Record<string, unknown>>>>
}

/**
 * The transaction of a handler or job, if its option `transaction` has no runner. A store adds its
 * methods by declaration merging: `@stampede/postgres` adds `query` of pg.
 */
// biome-ignore lint/suspicious/noEmptyInterface: the package of a store adds the members.
export interface AttemptTransaction {}

/** The open transaction of an attempt. `finish` ends it. */
export interface OpenTransaction {
  /** The object that the handler writes with. */
  readonly tx: unknown
  /** Rolls back to the start of the handler: its writes are gone, the transaction stays open. */
  rollback(): Promise<void>
  /**
   * Called when the handler has ended. From then on, `tx` rejects with
   * `ERR_STAMPEDE_TRANSACTION_OVER`.
   */
  seal(): void
}

/**
 * - `begun`: the caller runs the handler. `isRecovery`: the lease of an earlier attempt expired, so
 *   part of the work may be done. `steps` has the results that earlier attempts stored.
 * - `mismatch`: the record has other fingerprints. This is checked before all other states.
 * - `busy`: another attempt holds the lease. The lease ends in `forMs`, unless that attempt renews
 *   it. `busy` is also the reply for a record in a format that this version does not know.
 * - `completed`: `frame` has the response, which is kept for `forMs` more.
 * - `uncertain`: no process knows whether the handler succeeded.
 */
export type BeginReply =
  | {
      readonly status: 'begun'
      readonly grant: Grant
      /** Number of this attempt. The first one is 1, and each attempt that begins adds 1. */
      readonly attempt: number
      readonly isRecovery: boolean
      readonly steps: ReadonlyMap<string, Uint8Array>
      /** Set if the request has `transaction`. */
      readonly transaction?: OpenTransaction
    }
  | { readonly status: 'mismatch' }
  | { readonly status: 'busy'; readonly forMs: number }
  | { readonly status: 'completed'; readonly frame: Uint8Array; readonly forMs: number }
  | { readonly status: 'uncertain' }

/** A frame that is encoded when it is first read. */
export interface LazyFrame {
  /** Its size in memory before it is encoded. */
  readonly bytes: number
  encode(): Uint8Array
}

/** How an attempt ends, and how long the record is kept. The store does not parse `frame`. */
export type Finish =
  | { readonly as: 'completed'; readonly frame: Uint8Array; readonly keepMs: number }
  /** The next request runs the handler. The record keeps fingerprints, steps, attempt and fence. */
  | { readonly as: 'released'; readonly keepMs: number }
  | { readonly as: 'uncertain'; readonly keepMs: number }

/** A completed `Finish` for a store in this process, which may encode the frame later. */
export interface LazyFinish {
  readonly as: 'completed'
  readonly frame: Uint8Array | LazyFrame
  readonly keepMs: number
}

/**
 * - `finished`: the record has the end of this attempt. Also the reply to a repeated finish whose
 *   first reply was lost, and after an expired lease if no other attempt took over.
 * - `resurrected`: the record was missing (evicted or flushed) and was written again. Only for
 *   `completed`.
 * - `stale`: another attempt runs or has finished. Nothing was written.
 *
 * The finish of an attempt with a transaction commits or rolls back. It has other replies. In each
 * of them the transaction is over:
 *
 * - `finished`: committed with the record, or rolled back as `released` asks.
 * - `stale`: rolled back, because another attempt has written the record, or because the database
 *   could not serialize the transaction or ended a deadlock.
 * - `failed`: rolled back, because a statement of the handler failed.
 * - `ended`: the handler has ended the transaction itself. No record was written.
 * - `unknown`: the database did not tell the outcome in time, or it did not commit.
 */
export type FinishReply = 'finished' | 'resurrected' | 'stale' | 'failed' | 'ended' | 'unknown'

/** The end that an operator decides for an attempt. */
export type Settlement = Exclude<Finish, { as: 'uncertain' }>

/** `refused`: the record has a state that `force` does not allow. */
export type SettleReply = 'settled' | 'absent' | 'refused'

/** The record of an idempotency key, for an operator. */
export interface Inspection {
  /** `lapsed`: the lease expired, and no attempt began since. */
  readonly state: 'running' | 'lapsed' | 'completed' | 'released' | 'uncertain'
  /** Number of attempts so far. */
  readonly attempt: number
  readonly fence: string
  /** Remaining lease of a running attempt, otherwise 0. The attempt may renew it. */
  readonly leaseForMs: number
  /** Time since the first attempt began. */
  readonly ageMs: number
  /** Time until the record expires. */
  readonly keepForMs: number
  /** Names of the steps whose results are stored. */
  readonly steps: readonly string[]
  readonly frame: Uint8Array | undefined
}

/**
 * Which records are settled. `false`: uncertain, lapsed and released ones. `true`: in any state. A
 * text, such as `uncertain 17`: only a record that still has this state and fence.
 */
export type Force = boolean | string

/** A record in a list, without its frame. `unreadable`: this version cannot read the record. */
export interface ListedRecord extends Omit<Inspection, 'state' | 'frame'> {
  readonly key: string
  readonly state: Inspection['state'] | 'unreadable'
}

/** One page of a list. `cursor` continues the list, and is empty at its end. */
export interface RecordPage {
  readonly cursor: string
  readonly records: readonly ListedRecord[]
}

/** Callbacks from a store to core. Core stays correct if calls are lost, repeated or reordered. */
export interface IdempotencyHooks {
  readonly clock: Clock
  /** An attempt that this process waited for has ended. */
  onWake(key: string): void
  /** An operator settled this record, so copies of it are outdated. */
  onSettled(key: string): void
  /** Messages may have been lost, or the server is available again after an outage. */
  onGap(): void
  /**
   * Commands can be sent again, or go to another server now. Core retries at once to store the
   * responses that it could not store.
   */
  onBack(): void
  /** The connection for messages was lost. */
  onLost(): void
  onError(operation: string, error: unknown): void
}

/** The part of a store that keeps the records of idempotency keys. */
export interface IdempotencyStore {
  readonly name: string
  /** Whether attempts can run in a transaction that commits with their record. */
  readonly transactions?: true
  /** Whether messages of other processes arrive now. Undefined for a store of one process. */
  readonly isReceiving?: boolean
  /** Largest body of a response that the store accepts. Larger ones are kept without it. */
  readonly maxBodyBytes?: number
  /** Called once, before all other methods, when idempotency keys are first used. */
  attach(hooks: IdempotencyHooks): void
  /**
   * Begins an attempt, or returns why it cannot begin. One round trip, one atomic step. Rejects
   * with `ERR_STAMPEDE_STORE_UNAVAILABLE`. If the command may have run (`mayHaveRun`), the attempt
   * may have begun. Core then releases it by `finish`, with `ANY_FENCE` in place of the fence. A
   * store in this process may reply, or throw, without a promise.
   */
  begin(key: string, request: BeginRequest): BeginReply | Promise<BeginReply>
  /** Extends leases. Returns for each grant whether the store still has its lease. */
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  /**
   * Ends the attempt and wakes the waiters, in one step. If the record was lost, it is written
   * again, with these `fingerprints`. A store in this process may reply without a promise. The end
   * of an attempt with a transaction has no time budget of core, and is not sent again.
   */
  finish(
    grant: Grant,
    finish: Finish,
    fingerprints: Fingerprints,
  ): FinishReply | Promise<FinishReply>
  /** Stores the result of one step of a running attempt. */
  keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'>
  inspect(key: string): Promise<Inspection | undefined>
  /**
   * Lists records page by page, beginning with the cursor ''. The work of one call is bounded: it
   * examines about `limit` names, and `records` may be empty before the end. A record that exists,
   * and keeps one state, during the whole scan is listed at least once.
   */
  list(cursor: string, limit: number): Promise<RecordPage>
  /**
   * Settles a record, if `force` allows it. A running attempt loses its lease. Wakes waiters. The
   * record gets a greater fence, so that another operator who saw its old state is refused.
   */
  settle(key: string, settlement: Settlement, options: { force: Force }): Promise<SettleReply>
  close(): Promise<void>
}

/** A store that encodes a frame when it is first read. */
export interface LazyIdempotencyStore extends IdempotencyStore {
  finish(
    grant: Grant,
    finish: Finish | LazyFinish,
    fingerprints: Fingerprints,
  ): FinishReply | Promise<FinishReply>
}
