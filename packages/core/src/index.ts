// @stampede/core: the journey, without a framework and without Redis.

// For adapters
export type { Begun } from './cache/begin.ts'
export { strict } from './cache/cache-options.ts'
export type { Factory, FactoryContext } from './data/factory-context.ts'
export type { GetOrSetOptions } from './data/get-or-set-options.ts'
export {
  ERROR_CODES,
  optionError,
  responseError,
  StampedeError,
  type StampedeErrorCode,
  show,
  storeInUse,
  storeUnavailable,
  unknownReply,
} from './errors.ts'
export {
  EVENT_CHANNEL,
  EVENTS,
  type EventOf,
  type IdempotencyOutcome,
  type Listener,
  type StampedeEvent,
  type StampedeEventType,
} from './events.ts'
export { toHeaders } from './http/fields.ts'
export { type CacheOptions, createHttpCache, type HttpCache } from './http-cache.ts'
export {
  createHttpIdempotency,
  type HttpIdempotency,
  type IdempotencyOptions,
} from './http-idempotency.ts'
export type { Attempt } from './idempotency/attempt.ts'
export type { AttemptRules, GivenAnswer, Reconciled } from './idempotency/idempotency-options.ts'
export type {
  IdempotencyKeyRef,
  IdempotencyOperator,
  IdempotencyRecord,
} from './idempotency/operator.ts'
export type { IdempotentOptions } from './idempotency/run-idempotent.ts'
export { driftMs } from './lease/drift.ts'
export { type Hold, LeaseKeeper } from './lease/lease-keeper.ts'
export { newToken } from './lease/token.ts'
export { type MemoryStoreOptions, memoryStore } from './memory/memory-store.ts'
export { checkNames, readChoice, readDurationMs, readNumber } from './options.ts'
export { type Clock, systemClock, type Timer } from './ports/clock.ts'
export type { LiveChunks, LiveReply, LiveSink } from './ports/exchange.ts'
export {
  type BodyKind,
  type CapturedHead,
  type Exchange,
  type HeadDecision,
  type HeaderList,
  type HeadWatch,
  type InnerCache,
  type Natives,
  type OnInner,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELD,
  OWN_FIELDS,
  type PartOfBody,
  type ReadLog,
  type ReadyReply,
  type Reply,
  type RequestView,
} from './ports/exchange.ts'
export type {
  BeginReply,
  BeginRequest,
  Fingerprints,
  Finish,
  FinishReply,
  IdempotencyHooks,
  IdempotencyStore,
  Inspection,
  Settlement,
  SettleReply,
} from './ports/idempotency-store.ts'
export type {
  AttemptEnd,
  AttemptObserver,
  IdempotentExchange,
  RequestBody,
} from './ports/idempotent-exchange.ts'
export { groupOf } from './ports/key.ts'
export type {
  LockHooks,
  LockRelease,
  LockReply,
  LockRequest,
  LockStore,
} from './ports/lock-store.ts'
// For stores
export {
  CONFIRMED_FOR_MS,
  type CommitReply,
  type Failure,
  type Grant,
  type Lifetimes,
  type LookupReply,
  type LookupRequest,
  type Mark,
  type Position,
  type StampedeStore,
  type StoredFrame,
  type StoreHooks,
} from './ports/store.ts'
export type { PurgeOptions, PurgeTarget } from './purge.ts'
export {
  createStampede,
  type Stampede,
  type StampedeStats,
} from './stampede.ts'
export type { StampedeOptions } from './stampede-options.ts'
