// The lock store contract × the stores: memory, and Redis by each major of ioredis.

import { memoryStore } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { lockStoreContract } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from './harness/redis-server.ts'

const clock = new ManualClock()
lockStoreContract('memoryStore', {
  clock,
  pass: (ms) => clock.advance(ms),
  async open() {
    const { locks } = memoryStore()
    return { a: locks, b: locks }
  },
})

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

let tests = 0
for (const [version, connect] of [
  ['6', (url: string) => new Redis(url, { lazyConnect: true })],
  ['5', (url: string) => new Redis5(url, { lazyConnect: true })],
] as const) {
  lockStoreContract(`redisStore on ioredis ${version}`, {
    // Redis expires by its own clock, so time really has to pass.
    pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    async open() {
      tests += 1
      const prefix = `t${tests}`
      const open = () => redisStore(connect(server.url), { prefix, commandTimeoutMs: 2_000 }).locks
      return { a: open(), b: open() }
    },
  })
}
