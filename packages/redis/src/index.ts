// @stampede/redis: the Stampede store on Redis and Valkey, by ioredis or node-redis.

export type { RedisClient } from './connection/connection.ts'
export { redisStore } from './stores/redis-store.ts'
