// Exports of @stampede/core/store: interfaces and helpers for stores and for code that calls a
// store.

export {
  mayHaveRun,
  optionError,
  show,
  storeInUse,
  storeUnavailable,
  unknownReply,
} from './errors.ts'
export { EventHub } from './events.ts'
export { driftMs, LeaseKeeper, newToken } from './lease/lease-keeper.ts'
export { withTimeBudget } from './lease/time-budget.ts'
export { choice, durationMs, flag, number, type Reader, readOptions } from './options.ts'
export { type Clock, systemClock } from './ports/clock.ts'
export { ANY_FENCE } from './ports/grant.ts'
export type {
  BeginReply,
  BeginRequest,
  IdempotencyStore,
} from './ports/idempotency-store.ts'
export { groupOf } from './ports/key.ts'
export type {
  LockReply,
  LockRequest,
  LockStore,
} from './ports/lock-store.ts'
export {
  CONFIRMED_FOR_MS,
  type Grant,
  type LookupReply,
  type LookupRequest,
  type StoreHooks,
} from './ports/store.ts'
export {
  LONGEST_REPORT,
  LONGEST_REPORT_MS,
  type RecordInfo,
  type StoreOperator,
} from './ports/store-operator.ts'
export { lockTracing, trace } from './tracing.ts'
