// @stampede/testkit: what every store must do, as suites that run against each of them.

export { eventually } from './eventually.ts'
export { type IdempotencyBench, idempotencyStoreContract } from './idempotency-contract.ts'
export { type LockBench, lockStoreContract } from './lock-contract.ts'
export {
  Barrier,
  FaultyLocks,
  type LockFault,
  type LockOperation,
  refused,
  unheard,
} from './lock-doubles.ts'
export { type StoreBench, storeContract } from './store-contract.ts'
