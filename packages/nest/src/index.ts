// @stampede/nest: Stampede for NestJS 11 and 12.

export { isRevalidation } from '@stampede/node-http'
export { rememberRawBody } from '@stampede/node-http/adapter'
export { StampedeCache, stampedeCache } from './cache.ts'
export { IdempotencyAttempt, Idempotent, idempotency } from './idempotency.ts'
export { STAMPEDE, StampedeModule } from './module.ts'
export type { HttpRequest } from './request.ts'
