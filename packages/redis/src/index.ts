// @stampede/redis: the Stampede store on Redis and Valkey, for clients of ioredis and node-redis.

export type { RedisClient } from './connection/connection.ts'
export { redisStore } from './stores/redis-store.ts'
