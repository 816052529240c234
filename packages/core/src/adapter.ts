// Exports of @stampede/core/adapter: the HTTP caches, and the interfaces that an adapter
// implements.

export { optionError, responseError } from './errors.ts'
export { toHeaders } from './http/fields.ts'
export { createHttpCache, type HttpCache } from './http-cache.ts'
export { createHttpIdempotency } from './http-idempotency.ts'
export {
  type CapturedHead,
  type Exchange,
  type HeaderList,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type PartOfBody,
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
