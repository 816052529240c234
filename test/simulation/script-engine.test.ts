// More of test/protocol/script-engine.test.ts: other seeds, and far more random calls.

import { Redis } from 'ioredis'
import { afterAll, describe, expect, it } from 'vitest'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { compareCalls } from './differential.ts'

const { admin: redis, server } = await redisOfFile()
const subscriber = new Redis(server.url)
afterAll(() => subscriber.disconnect())

describe('the script engine of the simulation', () => {
  it.each([1, 2, 3])(
    'replies and leaves what Redis does, for 10 000 random calls of seed %i',
    async (seed) => {
      const { differences } = await compareCalls({ redis, subscriber }, seed, 10_000)
      expect(differences.slice(0, 5)).toEqual([])
    },
  )
})
