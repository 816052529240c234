// A claim to run a key, and what the other parts of a process know of its running attempt.

import type { Fingerprints } from '../ports/idempotency-store.ts'

export interface AttemptPolicy {
  readonly leaseMs: number
  /** A lease is not renewed for longer than this. */
  readonly maxHoldMs: number
  readonly retentionMs: number
  readonly maxAttempts: number
  readonly onLeaseExpired: 'takeover' | 'uncertain'
  /** How long to wait for a running attempt; 0: not at all. */
  readonly waitMs: number
  /** Of one record, in this process. */
  readonly maxWaiters: number
}

export interface Claim {
  /** Of the record: a keyed hash. */
  readonly key: string
  /** As the client or the job wrote it: for events. */
  readonly name: string
  readonly fingerprints: Fingerprints
  readonly policy: AttemptPolicy
  /** The request as its framework has it; a job has none. */
  readonly native?: unknown
}

/** An attempt at work in this process. */
export interface RunningAttempt {
  readonly claim: Claim
  /** Lets the lease run out: the outcome is unknown. */
  abandon(why: string): void
  /** Asks the store whether the lease is still ours: an operator may have settled the key. */
  verify(): Promise<void>
}
