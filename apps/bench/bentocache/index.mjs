// bentocache with ioredis 5, which it requires. All other packages of the bench use ioredis 6.
export { BentoCache, bentostore } from 'bentocache'
export { memoryDriver } from 'bentocache/drivers/memory'
export { redisBusDriver, redisDriver } from 'bentocache/drivers/redis'
export { Redis } from 'ioredis'
