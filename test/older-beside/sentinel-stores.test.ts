// The contracts of the stores on a master with a replica and three Sentinels.

import { redisStore } from '@stampede/redis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { allContracts } from '../harness/all-contracts.ts'
import { type SentinelBench, startSentinels } from '../harness/redis-sentinel.ts'

describe.each(inject('serverBinaries'))('$name Sentinel without faults', ({ source }) => {
  let bench: SentinelBench
  let tests = 0
  beforeAll(async () => {
    bench = await startSentinels({ source, downAfterMs: 30_000 })
  })
  afterAll(() => bench?.stop())
  allContracts('redisStore by Sentinels', () => {
    tests += 1
    const prefix = `t${tests}`
    const open = () => {
      // Even if the user reads from replicas, the store writes to the master.
      const client = bench.client('6', { lazyConnect: true, role: 'slave' })
      return redisStore(client, { prefix, commandTimeoutMs: 2_000 })
    }
    return { a: open(), b: open() }
  })
  allContracts('redisStore by Sentinels, with node-redis 5', () => {
    tests += 1
    const prefix = `t${tests}`
    const { name, sentinels: sentinelRootNodes } = bench
    const open = () =>
      redisStore({ createClient, name, sentinelRootNodes }, { prefix, commandTimeoutMs: 2_000 })
    return { a: open(), b: open() }
  })
})
