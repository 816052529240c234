// A contract × the stores: memory and the current ioredis, or the older ioredis (versions.ts).

import { memoryStore, type StampedeStore } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from './redis-server.ts'
import { ofThisRun } from './versions.ts'

interface SetUp<Part> {
  readonly clock?: ManualClock
  pass(ms: number): Promise<void>
  open(): Promise<{ a: Part; b: Part }>
}

/**
 * Opens the part of a store that `partOf` gives. The clients never connect: a store has its own
 * connections.
 */
export function onEveryStore<Part>(
  contract: (name: string, setUp: SetUp<Part>) => void,
  partOf: (store: StampedeStore) => Part,
): void {
  for (const name of ofThisRun(['memoryStore'], [])) {
    const clock = new ManualClock()
    contract(name, {
      clock,
      pass: (ms) => clock.advance(ms),
      async open() {
        const part = partOf(memoryStore())
        return { a: part, b: part }
      },
    })
  }

  let server: RedisServer
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server.stop())

  let tests = 0
  for (const version of ofThisRun<'5' | '6'>(['6'], ['5'])) {
    const connect = (url: string) =>
      version === '6'
        ? new Redis(url, { lazyConnect: true })
        : new Redis5(url, { lazyConnect: true })
    contract(`redisStore on ioredis ${version}`, {
      // Redis expires keys by its own clock, so real time has to pass.
      pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      async open() {
        tests += 1
        const options = { prefix: `t${tests}`, commandTimeoutMs: 2_000 }
        const open = () => partOf(redisStore(connect(server.url), options))
        return { a: open(), b: open() }
      },
    })
  }
}
