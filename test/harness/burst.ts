// Thousands of cold keys at once by one client, for the tests of such bursts.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterEach, beforeEach, expect, onTestFinished } from 'vitest'
import { redisOfFile } from './redis-of-file.ts'

type RedisClient = Parameters<typeof redisStore>[0]

/** The clients, each with a function that opens one. */
export const CLIENTS: Array<readonly [string, (url: string) => RedisClient]> = [
  ['ioredis', (url) => new Redis(url, { lazyConnect: true })],
  ['node-redis', (url) => createClient({ url })],
]

/** Redis for the tests of this file. */
export async function burstOfFile() {
  const { server, admin } = await redisOfFile()
  beforeEach(() => admin.flushall())
  afterEach(() => server.resume())

  function open(client: RedisClient, commandTimeoutMs?: number, originConcurrency?: number) {
    const store = redisStore(client, { commandTimeoutMs })
    const stampede = createStampede({ store, originConcurrency })
    const failures: string[] = []
    stampede.on(
      'store.failed',
      ({ operation, error }) => void failures.push(`${operation}: ${error}`),
    )
    onTestFinished(() => stampede.close())
    return { store, stampede, failures }
  }

  /** Gets `count` cold keys at once. All of them are stored then, and no command was late. */
  async function warmUp({ stampede, store, failures }: ReturnType<typeof open>, count: number) {
    expect(await Promise.all(getAll(stampede, count))).toHaveLength(count)
    expect(failures).toEqual([])
    expect(store.isAvailable).toBe(true)
    expect(await admin.eval("return #redis.call('KEYS', '*{=d:*')", 0)).toBe(count)
  }

  return { server, open, warmUp }
}

/** Calls `getOrSet` for `count` keys at once. */
export function getAll(
  stampede: Stampede,
  count: number,
  waitMs = 30_000,
): Array<Promise<unknown>> {
  return Array.from({ length: count }, (_, i) =>
    stampede.getOrSet(`k${i}`, async () => i, { ttlMs: 60_000, waitMs }),
  )
}
