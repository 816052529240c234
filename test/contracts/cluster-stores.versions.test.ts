// The contracts of the stores on a cluster of three masters.

import { redisStore } from '@stampede/redis'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { allContracts } from '../harness/all-contracts.ts'
import { type RedisCluster, startRedisCluster, type Version } from '../harness/redis-cluster.ts'
import { ofThisRun } from '../harness/versions.ts'

describe.each(inject('serverBinaries'))('$name Cluster', ({ source }) => {
  let cluster: RedisCluster
  let tests = 0
  beforeAll(async () => {
    cluster = await startRedisCluster({ masters: 3, source })
  })
  afterAll(() => cluster?.stop())
  for (const version of ofThisRun<Version>(['6'], ['5'])) {
    allContracts(`redisStore on ioredis ${version}`, () => {
      tests += 1
      const prefix = `t${tests}`
      const open = () => {
        const client = cluster.client(version, { lazyConnect: true })
        return redisStore(client, { prefix, commandTimeoutMs: 2_000 })
      }
      return { a: open(), b: open() }
    })
  }
})
