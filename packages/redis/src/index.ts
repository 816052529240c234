// @stampede/redis: the Stampede store on Redis and Valkey, for clients of ioredis and node-redis.

export { redisStore } from './stores/redis-store.ts'
