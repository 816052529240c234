// The states of an idempotency key in one process.

import type { BeginReply, Fingerprints } from '../ports/idempotency-store.ts'
import type { IdempotencyTrace } from '../tracing.ts'
import type { Kept, Replay } from './kept-response.ts'
import type { AttemptPolicy } from './options.ts'

/** A request or job that wants to begin an attempt for its key. */
export interface Claim {
  /** Key of the record, which is a keyed hash. */
  readonly key: string
  /** The key as the client or the job wrote it, for events. */
  readonly name: string
  readonly fingerprints: Fingerprints
  readonly policy: AttemptPolicy
  /** The request object of the framework. Undefined for a job. */
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

/** An attempt that runs in this process. */
export interface RunningAttempt {
  readonly type: 'running'
  readonly claim: Claim
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
}

/** An attempt whose end is not stored yet. */
export interface Unfinished {
  /**
   * Retries to store the end of the attempt, with the current `kept`. Returns whether the store has
   * it now. Never rejects.
   */
  retry(kept: Kept | undefined): boolean | Promise<boolean>
  /** Stops the renewal of the lease. The end is stored, or this process does not retry any more. */
  stop(): void
}

interface Done extends Replay {
  readonly type: 'done'
  readonly until: number
  readonly bytes: number
}

export interface Unstored {
  readonly type: 'unstored'
  /** Undefined for an attempt without a result: released or uncertain. */
  kept: Kept | undefined
  readonly fingerprints: Fingerprints
  readonly attempt: Unfinished
  readonly until: number
  bytes: number
}

export type Known = Beginning | RunningAttempt | Done | Unstored
