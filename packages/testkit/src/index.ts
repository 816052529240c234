// @stampede/testkit: the contracts of stores and adapters, as suites that run against each of them.

export { cacheAdapterContract } from './cache-adapter-contract.ts'
export type {
  CacheAdapter,
  CommonCacheOptions,
  Handler,
  Outside,
  RunningApp,
  Says,
  Seen,
} from './cache-contract/adapter.ts'
export { eventually } from './eventually.ts'
export type { AppOptions, IdempotencyAdapter, Layer, Said } from './idempotency-adapter.ts'
export {
  type IdempotencyAdapterBench,
  idempotencyAdapterContract,
} from './idempotency-adapter-contract.ts'
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
export { storeOperatorContract } from './operator-contract.ts'
export { type StoreBench, storeContract } from './store-contract.ts'
