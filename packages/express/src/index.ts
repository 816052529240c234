// @stampede/express: Stampede for Express 4 and 5.

export { isRevalidation } from '@stampede/node-http'
export { rememberRawBody } from '@stampede/node-http/adapter'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
export type { Middleware } from './middleware.ts'
