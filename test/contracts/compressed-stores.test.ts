// The contract of stores on Redis with `compress`, whose commits wait for a compression.

import { redisStore } from '@stampede/redis'
import { storeContract } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import { type RedisTime, startRedisTime } from '../harness/movable-redis.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

let time: RedisTime
let server: RedisServer
beforeAll(async () => {
  time = await startRedisTime()
  server = await startRedis(time)
  await time.slowDown()
})
afterAll(async () => {
  await server.stop()
  await time.stop()
})

let tests = 0
storeContract('redisStore with compress', {
  pass: (ms) => time.pass(ms),
  async open() {
    tests += 1
    const options = { prefix: `t${tests}`, commandTimeoutMs: 10_000, compress: { minBytes: 0 } }
    const open = () => redisStore(new Redis(server.url, { lazyConnect: true }), options)
    return { a: open(), b: open() }
  },
})
