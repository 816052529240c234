// Claims: requests and jobs that want to begin an attempt. Also the interface of a running attempt.

import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { IdempotencyTrace } from '../tracing.ts'

/** The rules for the attempts of a key. All durations are in ms. */
export interface AttemptPolicy {
  readonly leaseMs: number
  /** Hold time: after it, the lease is no longer renewed. */
  readonly maxHoldMs: number
  readonly retentionMs: number
  readonly maxAttempts: number
  readonly onLeaseExpired: 'takeover' | 'uncertain'
  /** How long a repeat waits for a running attempt. 0: it does not wait. */
  readonly waitMs: number
  /** Limit of waiters for one record in this process. */
  readonly maxWaiters: number
}

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
  /** Set if this request or job is traced. */
  readonly trace?: IdempotencyTrace | undefined
}

/** An attempt that runs in this process. */
export interface RunningAttempt {
  readonly claim: Claim
  /** Stops renewing the lease, because the outcome is unknown. */
  abandon(why: string): void
  /**
   * Asks the store whether this attempt still holds its lease, because an operator may have settled
   * the record.
   */
  verify(): Promise<void>
}
