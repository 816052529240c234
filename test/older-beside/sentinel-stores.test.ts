// The contracts of the stores on a master with a replica and three Sentinels.

import type { StampedeStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { allContracts } from '../harness/all-contracts.ts'
import { type RedisTime, startRedisTime } from '../harness/movable-redis.ts'
import { type SentinelBench, startSentinels } from '../harness/redis-sentinel.ts'

describe.each(inject('serverBinaries'))('$name Sentinel without faults', ({ source }) => {
  let time: RedisTime
  let bench: SentinelBench
  let tests = 0
  beforeAll(async () => {
    time = await startRedisTime()
    bench = await startSentinels({ source, ...time, downAfterMs: 30_000 })
    await time.slowDown()
  })
  afterAll(async () => {
    await bench?.stop()
    await time?.stop()
  })
  const pass = (ms: number) => time.pass(ms)
  const two = (one: (prefix: string) => StampedeStore) => {
    tests += 1
    return { a: one(`t${tests}`), b: one(`t${tests}`) }
  }
  allContracts('redisStore by Sentinels', {
    pass,
    open: () =>
      two((prefix) => {
        // Even if the user reads from replicas, the store writes to the master.
        const client = bench.client('6', { lazyConnect: true, role: 'slave' })
        return redisStore(client, { prefix, commandTimeoutMs: 10_000 })
      }),
  })
  allContracts('redisStore by Sentinels, with node-redis 5', {
    pass,
    open: () =>
      two((prefix) => {
        const { name, sentinels: sentinelRootNodes } = bench
        const client = { name, sentinelRootNodes }
        return redisStore(client, { prefix, commandTimeoutMs: 10_000 })
      }),
  })
})
