// Entries refreshed before their time, by processes that share a Redis.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { waitUntil } from '../harness/wait-until.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

it.each([{}, { maxBytes: 0 }])(
  'one of several processes refreshes an entry early in the background, and the others run nothing (%j)',
  async (l1) => {
    const prefix = `early${Object.keys(l1).length}`
    // The random early refresh starts when at most 6 × 100 × δ remain.
    const random = () => 0.999
    const fleet = Array.from({ length: 4 }, () =>
      createStampede({ store: redisStore(new Redis(server.url), { prefix }), random, l1 }),
    )
    let runs = 0
    let hold: Promise<void> | undefined
    const get = (stampede: Stampede) =>
      stampede.getOrSet(
        'k',
        async () => {
          runs += 1
          const run = runs
          await (hold ?? new Promise((resolve) => setTimeout(resolve, 50)))
          return run
        },
        { ttlMs: 20_000, jitter: 0, earlyRefresh: runs === 0 ? 0 : 100 },
      )
    try {
      expect(await Promise.all(fleet.map(get))).toEqual([1, 1, 1, 1])
      let release = () => {}
      hold = new Promise((resolve) => {
        release = resolve
      })
      expect(await Promise.all(fleet.map(get))).toEqual([1, 1, 1, 1])
      await waitUntil('the refresh has begun', () => Promise.resolve(runs === 2))
      expect(await Promise.all([...fleet, ...fleet].map(get))).toEqual(Array(8).fill(1))
      release()
      const committed = () => fleet.reduce((sum, each) => sum + each.stats().fills.committed, 0)
      await waitUntil('it is stored', () => Promise.resolve(committed() === 2))
      expect(runs).toBe(2)
    } finally {
      await Promise.all(fleet.map((stampede) => stampede.close()))
    }
  },
)
