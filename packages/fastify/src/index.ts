// @stampede/fastify: Stampede for Fastify 5.

export { isRevalidation } from '@stampede/node-http'
export { rememberRawBody } from '@stampede/node-http/adapter'
export { stampedeCache } from './cache.ts'
export { idempotency } from './idempotency.ts'
export type { Mountable } from './mount.ts'
