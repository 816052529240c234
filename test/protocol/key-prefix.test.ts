// Two applications on one Redis that differ only by the `keyPrefix` of their ioredis clients.

import { createStampede, type Stampede } from '@stampede/core'
import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { eventually } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startRedisCluster } from '../harness/redis-cluster.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type RedisClient = Parameters<typeof redisStore>[0]

const { server, admin } = await redisOfFile()

interface App {
  readonly stampede: Stampede
  readonly locks: Locks
}

function open(client: RedisClient, prefix = 'shop'): App {
  const store = redisStore(client, { prefix, commandTimeoutMs: 2_000 })
  const app = { stampede: createStampede({ store }), locks: createLocks({ store }) }
  onTestFinished(async () => {
    await app.locks.close()
    await app.stampede.close()
  })
  return app
}

const get = ({ stampede }: App, value: string): Promise<string> =>
  stampede.getOrSet('page', () => value, { ttlMs: 60_000, tags: ['all'] })

/** Two processes of the first application, and one of the second. */
async function expectApart([first, sibling, second]: readonly [App, App, App]): Promise<void> {
  expect(await get(first, 'of the first')).toBe('of the first')
  expect(await get(sibling, 'again')).toBe('of the first')
  expect(await get(second, 'of the second')).toBe('of the second')
  // A purge reaches the other process of its application, and not the other application.
  await first.stampede.purge({ tag: 'all' })
  await eventually(async () => expect(await get(sibling, 'new')).toBe('new'))
  expect(await get(second, 'again')).toBe('of the second')
  // So do locks. Their hand-over is a message on a channel of the process.
  const held = await first.locks.acquire('job')
  expect(await sibling.locks.tryAcquire('job')).toBeNull()
  await using other = await second.locks.acquire('job')
  const waiting = sibling.locks.acquire('job', { waitMs: 5_000 })
  await held.release()
  await (await waiting).release()
  other.assertHeld()
}

describe('two applications with different values of keyPrefix share nothing', () => {
  it.each<[version: string, Client: new (url: string, options: object) => RedisClient]>([
    ['ioredis 6', Redis],
    ['ioredis 5', Redis5],
  ])('%s on one server', async (_, Client) => {
    await admin.flushall()
    const client = (keyPrefix: string) => new Client(server.url, { lazyConnect: true, keyPrefix })
    const trace = await server.traceCommands()
    await expectApart([open(client('a:')), open(client('a:')), open(client('b:'))])
    const text = (await trace.stop()).map((each) => each.text).join('\n')
    expect(text).toMatch(/"subscribe" "a:shop:4:wake:/i)
    expect(text).toMatch(/"publish" "a:shop:4:grant:/i)
    const names = await admin.keys('*')
    expect(names).toContainEqual(expect.stringMatching(/^a:shop:4:\{=/))
    expect(names.filter((name) => !/^[ab]:shop:4:/.test(name))).toEqual([])
  })

  it.each(['keyPrefix', 'redisOptions.keyPrefix'])('%s of a Cluster', async (place) => {
    await using cluster = await startRedisCluster({ masters: 3 })
    const client = (keyPrefix: string) =>
      cluster.client('6', {
        lazyConnect: true,
        ...(place === 'keyPrefix' ? { keyPrefix } : { redisOptions: { keyPrefix } }),
      })
    await expectApart([open(client('a:')), open(client('a:')), open(client('b:'))])
  })
})

it('keyPrefix and prefix together give the same names as one prefix', async () => {
  await admin.flushall()
  const prefixed = open(new Redis(server.url, { lazyConnect: true, keyPrefix: 'app:' }))
  expect(await get(prefixed, 'one')).toBe('one')
  const plain = open(new Redis(server.url, { lazyConnect: true }), 'app:shop')
  expect(await get(plain, 'two')).toBe('one')
})
