// Exports of @stampede/core/adapter: the HTTP caches, and the interfaces that an adapter
// implements.

export { createHttpCache } from './http-cache.ts'
export { createHttpIdempotency } from './http-idempotency.ts'
export {
  type CapturedHead,
  type Exchange,
  type HeaderList,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type Reply,
} from './ports/exchange.ts'
export type { IdempotentExchange } from './ports/idempotent-exchange.ts'
export { warnOnce } from './warnings.ts'
