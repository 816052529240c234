// The contracts of the stores on a cluster of three masters, by node-redis. A file of its own,
// because the contracts on two clients side by side would disturb each other's times.

import { redisStore } from '@stampede/redis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { allContracts } from '../harness/all-contracts.ts'
import { type RedisCluster, startRedisCluster } from '../harness/redis-cluster.ts'

describe.each(inject('serverBinaries'))('$name Cluster', ({ source }) => {
  let cluster: RedisCluster
  let client: ReturnType<typeof createCluster>
  let tests = 0
  beforeAll(async () => {
    cluster = await startRedisCluster({ masters: 3, source })
    // One client for all stores: node-redis builds two classes for each, which takes 80 ms.
    client = createCluster({ rootNodes: cluster.nodes.map(({ url }) => ({ url })) })
  })
  afterAll(() => cluster?.stop())
  allContracts('redisStore on node-redis 5', () => {
    tests += 1
    const prefix = `t${tests}`
    const open = () => redisStore(client, { prefix, commandTimeoutMs: 2_000 })
    return { a: open(), b: open() }
  })
})
