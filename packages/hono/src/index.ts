// @stampede/hono: Stampede for Hono 4 on Node.

export { isRevalidation } from '@stampede/node-http'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
