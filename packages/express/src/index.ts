// @stampede/express: Stampede for Express 4 and 5.

export type { CacheOptions } from '@stampede/core'
export { isRevalidation } from '@stampede/node-http'
export { stampedeCache } from './cache.ts'
