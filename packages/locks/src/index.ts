// @stampede/locks: distributed locks with fencing tokens.

export { createLocks, type Locks } from './create-locks.ts'
export { LockError } from './errors.ts'
export { fencedUpdate } from './fencing.ts'
export { Lease } from './lease.ts'
export type { LockStats } from './lock-events.ts'
export { createQuorumLocks } from './quorum.ts'
