// @stampede/express: Stampede for Express 4 and 5.

export { type Attempt, type CacheOptions, type IdempotencyOptions, strict } from '@stampede/core'
export { isRevalidation, rememberRawBody } from '@stampede/node-http'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
export type { Middleware } from './middleware.ts'
