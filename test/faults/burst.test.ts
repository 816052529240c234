// Thousands of cold keys at once in one process: no command is late (more in test/older).

import { createStampede, type Stampede } from '@stampede/core'
import { type RedisClient, redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterEach, describe, expect, it } from 'vitest'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const closing: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
  await admin.flushall()
})

const CLIENTS: Array<readonly [string, (url: string) => RedisClient]> = [
  ['ioredis', (url) => new Redis(url, { lazyConnect: true })],
  ['node-redis', (url) => createClient({ url })],
]

function open(client: RedisClient) {
  const store = redisStore(client)
  const stampede = createStampede({ store })
  const failures: string[] = []
  stampede.on(
    'store.failed',
    ({ operation, error }) => void failures.push(`${operation}: ${error}`),
  )
  closing.push(() => stampede.close())
  return { store, stampede, failures }
}

function getAll(stampede: Stampede, count: number): Array<Promise<unknown>> {
  return Array.from({ length: count }, (_, i) =>
    stampede.getOrSet(`k${i}`, async () => i, { ttlMs: 60_000 }),
  )
}

describe.each(CLIENTS)('a warm-up by %s', (_, connect) => {
  it('stores the values of 8 000 cold keys, right after the start of the process', async () => {
    const { stampede, store, failures } = open(connect(server.url))
    expect(await Promise.all(getAll(stampede, 8_000))).toHaveLength(8_000)
    expect(failures).toEqual([])
    expect(store.isAvailable).toBe(true)
    const records = await admin.eval("return #redis.call('KEYS', '*{=d:*')", 0)
    expect(records).toBe(8_000)
  })
})
