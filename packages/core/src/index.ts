// Exports of @stampede/core, for applications.

export { strict } from './cache/cache-options.ts'
export type { DataCache, DataCacheOptions } from './data/data-cache.ts'
export type { Factory, FactoryContext, GetOrSetOptions } from './data/get-or-set-options.ts'
export type { Stored } from './data/stored.ts'
export type { Serializer } from './data/value.ts'
export type { RouteStats, StaleReason } from './entry/counts.ts'
export { ERROR_CODES, StampedeError, type StampedeErrorCode } from './errors.ts'
export {
  EVENT_CHANNEL,
  EVENTS,
  type EventOf,
  type IdempotencyOutcome,
  type StampedeEvent,
  type StampedeEventType,
} from './events.ts'
export type { CacheOptions } from './http-cache.ts'
export type { IdempotencyOptions } from './http-idempotency.ts'
export type { Attempt } from './idempotency/attempt.ts'
export type { IdempotencyOperator, IdempotencyRecord } from './idempotency/operator.ts'
export type { GivenAnswer } from './idempotency/options.ts'
export type { IdempotentOptions } from './idempotency/run-idempotent.ts'
export { memoryStore } from './memory/memory-store.ts'
export type { MemoryStore, StampedeStore } from './ports/store.ts'
export type { PurgeOptions, PurgeTarget } from './purge.ts'
export { createStampede, type Stampede } from './stampede.ts'
export type { StampedeOptions } from './stampede-options.ts'
export type { StampedeStats } from './stats.ts'
export { TRACING_CHANNELS, type TracingContexts } from './tracing.ts'
export { type StampedeWarningCode, WARNING_CODES } from './warnings.ts'
