// The contracts of the stores on a cluster of three masters, by node-redis.

import { redisStore } from '@stampede/redis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { allContracts } from '../harness/all-contracts.ts'
import { type RedisTime, startRedisTime } from '../harness/movable-redis.ts'
import { type RedisCluster, startRedisCluster } from '../harness/redis-cluster.ts'

describe.each(inject('serverBinaries'))('$name Cluster', ({ source }) => {
  let time: RedisTime
  let cluster: RedisCluster
  const pass = (ms: number) => time.pass(ms)
  let client: ReturnType<typeof createCluster>
  let tests = 0
  beforeAll(async () => {
    time = await startRedisTime()
    // The clocks of all nodes leap, which is no silence.
    cluster = await startRedisCluster({ masters: 3, source, ...time, nodeTimeoutMs: 600_000 })
    await time.slowDown()
    // One client for all stores: node-redis builds two classes for each, which takes 80 ms.
    client = createCluster({ rootNodes: cluster.nodes.map(({ url }) => ({ url })) })
  })
  afterAll(async () => {
    await cluster?.stop()
    await time?.stop()
  })
  const open = () => {
    tests += 1
    const prefix = `t${tests}`
    const one = () => redisStore(client, { prefix, commandTimeoutMs: 10_000 })
    return { a: one(), b: one() }
  }
  allContracts('redisStore on node-redis 5', { open, pass })
})
