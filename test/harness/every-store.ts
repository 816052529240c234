// A contract × the stores: one in the process, and the current ioredis or the older one
// (versions.ts).

import type { StampedeStore } from '@stampede/core'
import { ManualClock, RecordStore } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { afterAll, beforeAll } from 'vitest'
import { type RedisTime, startRedisTime } from './movable-redis.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { ofThisRun } from './versions.ts'

type RedisClient = Parameters<typeof redisStore>[0]

interface SetUp<Part> {
  readonly clock?: ManualClock
  pass(ms: number): Promise<void>
  open(): Promise<{ a: Part; b: Part }>
}

/**
 * Opens the part of a store that `partOf` gives. `RecordStore` has the locks and idempotency keys
 * of `memoryStore()`. The clients never connect: a store has its own connections.
 */
export function onEveryStore<Part>(
  contract: (name: string, setUp: SetUp<Part>) => void,
  partOf: (store: StampedeStore) => Part,
  inProcess: readonly string[] = ['RecordStore'],
): void {
  for (const name of ofThisRun(inProcess, [])) {
    const clock = new ManualClock()
    contract(name, {
      clock,
      pass: (ms) => clock.advance(ms),
      async open() {
        const part = partOf(new RecordStore())
        return { a: part, b: part }
      },
    })
  }

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
  const clients: Record<string, (url: string) => RedisClient> = {
    'ioredis 6': (url) => new Redis(url, { lazyConnect: true }),
    'ioredis 5': (url) => new Redis5(url, { lazyConnect: true }),
    'node-redis 5': (url) => createClient({ url }),
  }
  for (const name of ofThisRun(['ioredis 6', 'node-redis 5'], ['ioredis 5'])) {
    const connect = clients[name] as (url: string) => RedisClient
    contract(`redisStore on ${name}`, {
      pass: (ms) => time.pass(ms),
      async open() {
        tests += 1
        const options = { prefix: `t${tests}`, commandTimeoutMs: 10_000 }
        const open = () => partOf(redisStore(connect(server.url), options))
        return { a: open(), b: open() }
      },
    })
  }
}
