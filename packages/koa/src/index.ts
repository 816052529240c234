// @stampede/koa: Stampede for Koa 2 and 3.

export type { CacheOptions } from '@stampede/core'
export { isRevalidation } from '@stampede/node-http'
export { stampedeCache } from './cache.ts'
