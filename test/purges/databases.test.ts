// Two databases of one server with one prefix. Their keys are apart, but Redis has one set of
// channels for all databases.

import { createStampede } from '@stampede/core'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { databaseOf, requireClient } from '../../packages/redis/src/connection/known-clients.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type RedisClient = Parameters<typeof redisStore>[0]

const { server, admin } = await redisOfFile()
beforeEach(() => admin.flushall())

type Connect = (database: number) => RedisClient
const CLIENTS: Array<readonly [string, Connect]> = [
  ['ioredis and a URL', (n) => new Redis(`${server.url}/${n}`, { lazyConnect: true })],
  ['ioredis and db', (db) => new Redis(server.url, { lazyConnect: true, db })],
  ['node-redis and a URL', (n) => createClient({ url: `${server.url}/${n}` })],
  ['node-redis and database', (database) => createClient({ url: server.url, database })],
]

async function open(client: RedisClient) {
  const store = redisStore(client, { prefix: 'shop', commandTimeoutMs: 2_000 })
  const stampede = createStampede({ store })
  onTestFinished(() => stampede.close())
  const events: string[] = []
  stampede.on('entry.purged', () => void events.push('purged'))
  stampede.on('bus.gap', () => void events.push('gap'))
  await stampede.getOrSet('warm', async () => 1, { ttlMs: 60_000 })
  return { store, stampede, events }
}

describe.each(CLIENTS)('two databases of one server, by %s', (_, connect) => {
  it('do not purge each other, and a purge reaches the processes of its own database', async () => {
    const [near, far] = [await open(connect(0)), await open(connect(0))]
    const other = await open(connect(1))
    const keys = Array.from({ length: 20 }, (__, i) => `k${i}`)
    let runs = 0
    const getAll = () =>
      Promise.all(
        keys.map((key) =>
          near.stampede.getOrSet(key, async () => ++runs, { ttlMs: 60_000, tags: ['a'] }),
        ),
      )
    await getAll()
    near.events.length = 0
    for (let i = 0; i < 5; i++) {
      await other.stampede.purge({ tag: 'no entry has it' })
      await other.stampede.purge({ key: 'k0' })
      await far.stampede.purge({ tag: `none ${i}` })
      await getAll()
    }
    expect(runs).toBe(20)
    expect(near.events).not.toContain('gap')
    await far.stampede.purge({ tag: 'a' })
    await expect
      .poll(async () => {
        await getAll()
        return runs
      })
      .toBeGreaterThanOrEqual(40)
  })

  it('have values, locks and settled idempotency keys of their own under equal names', async () => {
    const stores = [await open(connect(0)), await open(connect(1))]
    const fill = (i: number, { stampede }: (typeof stores)[number]) =>
      stampede.getOrSet('k', async () => i, { ttlMs: 60_000 })
    expect(await Promise.all(stores.map((each, i) => fill(i, each)))).toEqual([0, 1])
    const locks = stores.map(({ store }) => createLocks({ store }))
    for (const each of locks) onTestFinished(() => each.close())
    const leases = await Promise.all(locks.map((each) => each.tryAcquire('l')))
    expect(leases.every((lease) => lease !== undefined)).toBe(true)
    let runs = 0
    const work = async () => ++runs
    for (const { stampede } of stores) await stampede.idempotent('job', work, { scope: 's' })
    const channels = (await admin.pubsub('CHANNELS')) as string[]
    const shared = channels.filter((name) => /shop:4:(?:db1:)?(?:log|settled)$/.test(name))
    expect(shared.sort()).toEqual([
      'shop:4:db1:log',
      'shop:4:db1:settled',
      'shop:4:log',
      'shop:4:settled',
    ])
  })
})

describe('the number of the database', () => {
  const SENTINEL = { name: 'shop', sentinelRootNodes: [{ host: 's', port: 1 }] }
  const IOREDIS = { isCluster: false, duplicate() {} }

  it.each([
    ['a node-redis Sentinel', { ...SENTINEL, nodeClientOptions: { database: 3 } }, 3],
    ['a node-redis Sentinel without options', SENTINEL, 0],
    ['an ioredis client behind Sentinels', { ...IOREDIS, options: { db: 4 } }, 4],
    ['a Cluster', { ...IOREDIS, isCluster: true, options: { redisOptions: { db: 4 } } }, 0],
    ['a node-redis Cluster', createCluster({ rootNodes: [{}] }), 0],
  ])('is read from %s', (_, client, database) => {
    expect(databaseOf(requireClient(client))).toBe(database)
  })
})
