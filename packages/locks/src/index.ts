// @stampede/locks: distributed locks with fencing tokens.

export { createLocks, type Locks } from './create-locks.ts'
export { LockError } from './errors.ts'
export { type FencedUpdate, fencedUpdate } from './fencing.ts'
export { Lease, type Released } from './lease.ts'
export type { LockEvent, LockStats } from './lock-events.ts'
export type { AcquireOptions, LocksOptions, QuorumOptions } from './options.ts'
export { createQuorumLocks, type QuorumLease, type QuorumLocks } from './quorum.ts'
