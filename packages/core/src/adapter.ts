// Exports of @stampede/core/adapter: the HTTP caches, and the interfaces that an adapter
// implements.

export { optionError, responseError } from './errors.ts'
export { toHeaders } from './http/fields.ts'
export { createHttpCache, type HttpCache } from './http-cache.ts'
export { createHttpIdempotency, type HttpIdempotency } from './http-idempotency.ts'
export {
  type BodyKind,
  type CapturedHead,
  type Exchange,
  type HeaderList,
  type InnerCache,
  type Natives,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type PartOfBody,
  type ReadLog,
  type Reply,
  type RequestView,
} from './ports/exchange.ts'
export type {
  AttemptEnd,
  AttemptObserver,
  IdempotentExchange,
  RequestBody,
} from './ports/idempotent-exchange.ts'
export { warnOnce } from './warnings.ts'
