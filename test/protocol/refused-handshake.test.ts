// A Redis that refuses a command with which a connection begins: SELECT, AUTH and HELLO.

import { inspect } from 'node:util'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { redisOfFile } from '../harness/redis-of-file.ts'

type RedisClient = Parameters<typeof redisStore>[0]

const { server, admin } = await redisOfFile()
beforeEach(() => admin.flushall())

/** A client of each library with this login and database. It opens no connection itself. */
const CLIENTS: ReadonlyArray<
  [string, (username: string, password: string, db?: number) => RedisClient]
> = [
  ['ioredis 6', (username, password, db = 0) => lazy(Redis, { username, password, db })],
  [
    'ioredis 6 with RESP 3',
    (username, password, db = 0) => lazy(Redis, { username, password, db, protocol: 3 }),
  ],
  ['ioredis 5', (username, password, db = 0) => lazy(Redis5, { username, password, db })],
  [
    'node-redis',
    (username, password, database = 0) =>
      createClient({ url: server.url, username, password, database }),
  ],
]

function lazy(Client: new (url: string, options: object) => unknown, options: object): RedisClient {
  return new Client(server.url, { lazyConnect: true, ...options }) as RedisClient
}

describe('a store whose user lacks +select', () => {
  it.each(CLIENTS)('writes nothing to database 0: %s', async (_, clientOf) => {
    await admin.call('ACL', 'SETUSER', 'shop', 'reset', 'on', '>pw', '~*', '&*', '+@all', '-select')
    const store = redisStore(clientOf('shop', 'pw', 3), { commandTimeoutMs: 1_000 })
    const stampede = createStampede({ store })
    onTestFinished(() => stampede.close())
    const look = () => store.lookup('k', { token: 't', leaseMs: 1_000 })
    for (let i = 0; i < 5; i++) {
      await expect(look()).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
      await expect(look()).rejects.toThrow(/NOPERM.*select/)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(await stampede.getOrSet('k', () => 'made', { ttlMs: 60_000 })).toBe('made')
    expect(await admin.keys('*')).toEqual([])
    await admin.call('ACL', 'SETUSER', 'shop', '+select')
    await expect.poll(() => look().then(({ status }) => status, String)).toBe('leased')
    expect(await admin.keys('*')).toEqual([])
  })
})

describe('a store whose password is refused', () => {
  it.each(CLIENTS)('shows the password in no error: %s', async (_, clientOf) => {
    const store = redisStore(clientOf('default', 'secret-password'), { commandTimeoutMs: 1_000 })
    const stampede = createStampede({ store })
    onTestFinished(() => stampede.close())
    const seen: unknown[] = []
    stampede.on('store.failed', (event) => void seen.push(event))
    await admin.config('SET', 'requirepass', 'other')
    try {
      const rejected = await store.lookup('k', { token: 't', leaseMs: 1_000 }).catch((e) => e)
      await expect.poll(() => seen.length).toBeGreaterThan(2)
      const text = inspect([rejected, ...seen], { depth: 10 })
      expect(text).toContain('WRONGPASS')
      expect(text).not.toContain('secret-password')
    } finally {
      await admin.config('SET', 'requirepass', '')
    }
  })
})
