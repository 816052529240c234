// bentocache with the ioredis it was made for (5): a package of its own, as everything else here has ioredis 6.
export { BentoCache, bentostore } from 'bentocache'
export { memoryDriver } from 'bentocache/drivers/memory'
export { redisBusDriver, redisDriver } from 'bentocache/drivers/redis'
export { Redis } from 'ioredis'
