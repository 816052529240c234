// @stampede/koa: Stampede for Koa 2 and 3.

export { isRevalidation } from '@stampede/node-http'
export { rememberRawBody } from '@stampede/node-http/adapter'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
