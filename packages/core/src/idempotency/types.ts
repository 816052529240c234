// The states of an idempotency key in one process.

import type { BeginReply, Fingerprints } from '../ports/idempotency-store.ts'
import type { IdempotencyTrace } from '../tracing.ts'
import type { Kept } from './kept-response.ts'
import type { AttemptPolicy } from './options.ts'

/** A request or job that wants to begin an attempt for its key. */
export interface Claim {
  /** Key of the record, which is a keyed hash. */
  readonly key: string
  /** The key as the client or the job wrote it, for events. */
  readonly name: string
  readonly fingerprints: Fingerprints
  readonly policy: AttemptPolicy
  /** The request object of the framework. Undefined for a job, and in an unstored attempt. */
  readonly native?: unknown
  /** Number of runs of this job whose transaction was rolled back because of another one. */
  readonly repeats?: number
  /** Set if this request or job is traced. */
  readonly trace?: IdempotencyTrace | undefined
}

/** A pending `begin` command, which equal requests share. */
export interface Beginning {
  readonly type: 'beginning'
  readonly reply: Promise<BeginReply>
  readonly fingerprints: Fingerprints
  /** `sequence` and the number of wake-ups when the command was sent. */
  readonly since: number
  readonly turn: number
}

/** An attempt of this process, from its begin until the store has its end. */
export interface LocalAttempt {
  /** `unstored`: it has ended, and the store does not have its end yet. */
  type: 'running' | 'unstored'
  claim: Claim
  /** Its result. Undefined while it runs, and if it was released or is uncertain. */
  kept: Kept | undefined
  /** Whether the store has its end. */
  readonly isStored: boolean
  /** Until then, its end is sent again. */
  until: number
  /** Its memory while it is unstored. */
  bytes: number
  /**
   * Stops renewing the lease, because the outcome is unknown. A transaction is rolled back, which
   * the promise waits for.
   */
  abandon(why: string): Promise<unknown> | undefined
  /**
   * Asks the store whether this attempt still holds its lease, because an operator may have settled
   * the record.
   */
  verify(): Promise<void>
  /** Sends the end to the store, with the present `kept`. Never rejects. */
  sendEnd(): Promise<undefined> | undefined
  /** Stops the renewal of the lease. The end is stored, or this process does not send it again. */
  stop(): void
}

/** A result that the store has. */
export interface Done {
  readonly type: 'done'
  readonly kept: Kept
  readonly fingerprints: Fingerprints
  readonly until: number
}

export type Known = Beginning | LocalAttempt | Done
