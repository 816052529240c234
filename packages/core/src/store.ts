// Exports of @stampede/core/store: interfaces and helpers for stores and for code that calls a
// store.

export { compressibleBody } from './entry/frame.ts'
export {
  mayHaveRun,
  optionError,
  show,
  storeInUse,
  storeUnavailable,
} from './errors.ts'
export { EventHub } from './events.ts'
export { LeaseKeeper, newToken } from './lease/lease-keeper.ts'
export { withTimeBudget } from './lease/time-budget.ts'
export { readers, readOptions } from './options.ts'
export { type Clock, systemClock } from './ports/clock.ts'
export { ANY_FENCE } from './ports/grant.ts'
export type {
  IdempotencyStore,
  TransactionRunner,
} from './ports/idempotency-store.ts'
export { groupOf } from './ports/key.ts'
export type { LockStore } from './ports/lock-store.ts'
export { CONFIRMED_FOR_MS, type Grant } from './ports/store.ts'
export { REPORT_LIMITS, type StoreOperator } from './ports/store-operator.ts'
export { lockTracing } from './tracing.ts'
