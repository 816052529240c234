// The store contract × the stores: memory, and Redis by each major of ioredis.

import { memoryStore } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { storeContract } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from './harness/redis-server.ts'

const clock = new ManualClock()
storeContract('memoryStore', {
  clock,
  pass: (ms) => clock.advance(ms),
  async open() {
    const store = memoryStore()
    return { a: store, b: store }
  },
})

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

let tests = 0
for (const [version, connect] of [
  ['6', (url: string) => new Redis(url)],
  ['5', (url: string) => new Redis5(url)],
] as const) {
  let clients: Array<{ disconnect(): void }> = []
  storeContract(`redisStore on ioredis ${version}`, {
    // Redis expires by its own clock, so time really has to pass.
    pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    async open() {
      tests += 1
      const prefix = `t${tests}`
      const open = () => {
        const client = connect(server.url)
        clients.push(client)
        return redisStore(client, { prefix, commandTimeoutMs: 2_000 })
      }
      return { a: open(), b: open() }
    },
    async close() {
      for (const client of clients) client.disconnect()
      clients = []
    },
  })
}
