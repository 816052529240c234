// @stampede/hono: Stampede for Hono 4 on Node.

export { type Attempt, type CacheOptions, type IdempotencyOptions, strict } from '@stampede/core'
export { isRevalidation } from '@stampede/node-http'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
