export { BentoCache, bentostore } from 'bentocache'
export { memoryDriver } from 'bentocache/drivers/memory'
export { redisBusDriver, redisDriver } from 'bentocache/drivers/redis'
export { Redis } from 'ioredis'
