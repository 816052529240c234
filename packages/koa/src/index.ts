// @stampede/koa: Stampede for Koa 2 and 3.

export { type Attempt, type CacheOptions, type IdempotencyOptions, strict } from '@stampede/core'
export { isRevalidation, rememberRawBody } from '@stampede/node-http'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
