import { redisStore } from '@stampede/redis'
import { idempotencyStoreContract, lockStoreContract, storeContract } from '@stampede/testkit'
import { afterAll, beforeAll, describe, inject } from 'vitest'
import { type RedisCluster, startRedisCluster } from './harness/redis-cluster.ts'

const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

for (const { name, source } of inject('serverBinaries')) {
  describe.sequential(`${name} Cluster`, () => {
    let cluster: RedisCluster
    beforeAll(async () => {
      const t = performance.now()
      cluster = await startRedisCluster({ masters: 3, source })
      console.log('cluster up', performance.now() - t)
    })
    afterAll(() => cluster?.stop())
    let tests = 0
    const two = (version: '5' | '6') => {
      tests += 1
      const open = () =>
        redisStore(cluster.client(version, { lazyConnect: true }), {
          prefix: `t${tests}`,
          commandTimeoutMs: 2_000,
        })
      return { a: open(), b: open() }
    }
    for (const version of ['6', '5'] as const) {
      const on = `redisStore on ioredis ${version}`
      describe.concurrent('store', () =>
        describe.sequential(version, () =>
          storeContract(on, { pass, open: async () => two(version) }),
        ),
      )
      describe.concurrent('locks', () =>
        describe.sequential(version, () =>
          lockStoreContract(on, {
            pass,
            async open() {
              const { a, b } = two(version)
              return { a: a.locks, b: b.locks }
            },
          }),
        ),
      )
      describe.concurrent('idempotency', () =>
        describe.sequential(version, () =>
          idempotencyStoreContract(on, {
            pass,
            async open() {
              const { a, b } = two(version)
              return { a: a.idempotency, b: b.idempotency }
            },
          }),
        ),
      )
    }
  })
}
