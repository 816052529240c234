// The contracts of the stores on a cluster of three masters.

import { redisStore } from '@stampede/redis'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { allContracts } from '../harness/all-contracts.ts'
import { type RedisTime, startRedisTime } from '../harness/movable-redis.ts'
import { type RedisCluster, startRedisCluster, type Version } from '../harness/redis-cluster.ts'
import { ofThisRun } from '../harness/versions.ts'

describe.each(inject('serverBinaries'))('$name Cluster', ({ source }) => {
  let time: RedisTime
  let cluster: RedisCluster
  const pass = (ms: number) => time.pass(ms)
  let tests = 0
  beforeAll(async () => {
    time = await startRedisTime()
    // The clocks of all nodes leap, which is no silence.
    cluster = await startRedisCluster({ masters: 3, source, ...time, nodeTimeoutMs: 600_000 })
    await time.slowDown()
  })
  afterAll(async () => {
    await cluster?.stop()
    await time?.stop()
  })
  for (const version of ofThisRun<Version>(['6'], ['5'])) {
    const open = () => {
      tests += 1
      const prefix = `t${tests}`
      const one = () => {
        const client = cluster.client(version, { lazyConnect: true })
        return redisStore(client, { prefix, commandTimeoutMs: 10_000 })
      }
      return { a: one(), b: one() }
    }
    allContracts(`redisStore on ioredis ${version}`, { open, pass })
  }
})
