// @stampede/nest: Stampede for NestJS 11 and 12.

export { type Attempt, type CacheOptions, type IdempotencyOptions, strict } from '@stampede/core'
export { isRevalidation } from '@stampede/node-http'
export { rememberRawBody } from '@stampede/node-http/adapter'
export { StampedeCache, stampedeCache } from './cache.ts'
export { IdempotencyAttempt, Idempotent, idempotency } from './idempotency.ts'
export type { InterceptorClass, NestDecorator } from './interceptor.ts'
export {
  InjectStampede,
  STAMPEDE,
  type StampedeAsyncOptions,
  StampedeModule,
  type StampedeModuleOptions,
} from './module.ts'
export type { HttpRequest } from './request.ts'
