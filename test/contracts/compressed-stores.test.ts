// The contract of stores on Redis with `compress`, whose commits wait for a compression.

import { redisStore } from '@stampede/redis'
import { storeContract } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { movableRedis } from '../harness/every-store.ts'

const redis = movableRedis()
storeContract('redisStore with compress', {
  pass: redis.pass,
  async open() {
    const options = { ...redis.storeOptions(), compress: { minBytes: 0 } }
    const open = () => redisStore(new Redis(redis.url, { lazyConnect: true }), options)
    return { a: open(), b: open() }
  },
})
