// Faults during calls with many keys: servers, connections and processes end in the middle.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { dataKey } from '../../packages/core/src/ports/key.ts'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { assertCleanExit, startFleet } from '../harness/fleet.ts'
import { PATIENT } from '../harness/patient.ts'
import { type ClusterMember, startRedisCluster } from '../harness/redis-cluster.ts'
import { startRedis } from '../harness/redis-server.ts'
import { startProxy } from '../harness/tcp-proxy.ts'

type RedisClient = Parameters<typeof redisStore>[0]

const { record, purges } = names('stampede')
const recordOf = (key: string) => record(dataKey(`n:${key}`))
const keysOf = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `k${from + i}`)
const load = async (keys: readonly string[]) => new Map(keys.map((key) => [key, `value of ${key}`]))

async function open(
  client: RedisClient,
  options: object = PATIENT,
  l1: object = { maxEntries: 0 },
) {
  const store = redisStore(client, options)
  const stampede = createStampede({ store, l1 })
  onTestFinished(() => stampede.close())
  const cache = stampede.cache('n', { ttlMs: 60_000, tags: ['all'] })
  // Connected, the purge log is read, and all scripts are loaded.
  await cache.setMany(await load(['warm1', 'warm2']))
  await cache.getMany(['warm1', 'warm2'])
  return { store, stampede, cache }
}

const at = (url: string) => new Redis(url, { lazyConnect: true })
const committed = (stampede: Stampede) => () => stampede.stats().fills.committed

describe('a Cluster', () => {
  it('stores and reads all keys of a call while the slot of some of them moves', async () => {
    await using cluster = await startRedisCluster()
    const { stampede, cache } = await open(cluster.client('6', { lazyConnect: true }))
    const before = committed(stampede)()
    const slot = cluster.slotOf(recordOf('k1'))
    const move = async () => {
      const from = cluster.ownerOf(slot)
      const to = cluster.nodes.find((node) => node !== from) as ClusterMember
      await cluster.reshard([slot], from, to)
    }
    const keys = keysOf(60)
    const values = await cache.getOrSetMany(keys, async (its) => {
      await move()
      return load(its)
    })
    expect(values).toEqual(await load(keys))
    await expect.poll(committed(stampede), { timeout: 20_000 }).toBe(before + keys.length)
    await move()
    expect(await cache.getMany(keys)).toEqual(values)
    await move()
    await cache.deleteMany(keys)
    expect(await cache.getMany(keys)).toEqual(new Map())
  }, 120_000)

  it('fills keys of a frozen node without a lease, in the one run of the call', async () => {
    await using cluster = await startRedisCluster({ nodeTimeoutMs: 120_000 })
    const client = cluster.client('6', { lazyConnect: true })
    const { stampede, cache } = await open(client, { commandTimeoutMs: 1_000 })
    const before = committed(stampede)()
    const log = cluster.ownerOf(cluster.slotOf(purges[0]))
    const frozen = cluster.nodes.find((node) => node !== log) as ClusterMember
    const keys = keysOf(60)
    const isFrozen = (key: string) => cluster.ownerOf(cluster.slotOf(recordOf(key))) === frozen
    const alive = keys.filter((key) => !isFrozen(key))
    expect(alive.length).toBeLessThan(keys.length)
    await frozen.pause()
    const runs: string[][] = []
    const values = await cache.getOrSetMany(keys, (its) => {
      runs.push([...its])
      return load(its)
    })
    expect(values).toEqual(await load(keys))
    expect(runs.map((run) => run.length)).toEqual([keys.length])
    await expect.poll(committed(stampede), { timeout: 20_000 }).toBe(before + alive.length)
    expect(await cache.getMany(alive)).toEqual(await load(alive))
    await frozen.resume()
  }, 120_000)
})

describe('a server', () => {
  it('keeps no half of a value if the connection ends in the middle of the commits', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy(server.port)
    const [cut, other] = [await open(at(proxy.url)), await open(at(server.url))]
    const admin = new Redis(server.url)
    onTestFinished(() => admin.disconnect())
    const keys = keysOf(12)
    const large = new Map(keys.map((key) => [key, key.repeat(70_000)]))
    const filling = cut.cache.getOrSetMany(
      keys,
      () => {
        proxy.throttle(1_000)
        return large
      },
      { leaseMs: 2_000 },
    )
    expect(await filling).toEqual(large)
    const stored = async () => {
      const all = keys.map((key) => admin.hexists(recordOf(key), 'frame'))
      return (await Promise.all(all)).filter(Boolean).length
    }
    await expect.poll(stored, { timeout: 20_000 }).toBeGreaterThan(0)
    proxy.throttle(0)
    proxy.drop()
    const filled: string[] = []
    const values = await other.cache.getOrSetMany(
      keys,
      async (its) => {
        filled.push(...its)
        return new Map(its.map((key) => [key, large.get(key) as string]))
      },
      { leaseMs: 2_000, waitMs: 60_000 },
    )
    expect(values).toEqual(large)
    expect(new Set(filled).size).toBe(filled.length)
    await expect.poll(stored, { timeout: 20_000 }).toBe(keys.length)
    expect(await other.cache.getMany(keys)).toEqual(large)
  }, 120_000)

  it('leaves no purged copy in any process by a restart during purges of lists', async () => {
    await using server = await startRedis()
    const [a, b] = [
      await open(at(server.url), PATIENT, {}),
      await open(at(server.url), PATIENT, {}),
    ]
    const keys = keysOf(100)
    const tags = keysOf(100).map((key) => `tag ${key}`)
    for (let round = 0; round < 3; round++) {
      const values = new Map(keys.map((key) => [key, `round ${round}`]))
      for (const { cache } of [a, b]) {
        const fill = async () => {
          await cache.getOrSetMany(keys, () => values, { tags: [...tags, 'all'] })
          return cache.getMany(keys)
        }
        // Right after the restart, entries are not stored yet.
        await expect.poll(fill, { timeout: 30_000 }).toEqual(values)
      }
      const purge = [
        () => a.stampede.purge({ tags }),
        () => a.cache.deleteMany(keys),
        () => a.stampede.purge({ keys: keys.map((key) => `n:${key}`) }),
      ][round] as () => Promise<void>
      const purging = purge().then(
        () => true,
        () => false,
      )
      await server.restart()
      const isDone = await purging
      if (isDone) expect(await a.cache.getMany(keys)).toEqual(new Map())
      const sizes = async () => [
        (await a.cache.getMany(keys)).size,
        (await b.cache.getMany(keys)).size,
      ]
      await expect.poll(sizes, { timeout: 30_000 }).toEqual([0, 0])
    }
  }, 180_000)

  it('opens the breaker by its silence, and calls do without it in one run', async () => {
    await using server = await startRedis()
    const { store, stampede, cache } = await open(at(server.url), { commandTimeoutMs: 500 })
    const keys = keysOf(100)
    await server.pause()
    await expect
      .poll(
        async () => {
          await cache.getMany(['k0'])
          return store.isAvailable
        },
        { timeout: 30_000 },
      )
      .toBe(false)
    expect(await cache.getMany(keys)).toEqual(new Map())
    const runs: number[] = []
    const values = await cache.getOrSetMany<string>(keys, (its) => {
      runs.push(its.length)
      return load(its)
    })
    expect(values).toEqual(await load(keys))
    expect(runs).toEqual([keys.length])
    expect(stampede.stats().unleased).toEqual({ running: 0, queued: 0 })
    for (const method of ['setMany', 'deleteMany'] as const) {
      const refused = method === 'setMany' ? cache.setMany(values) : cache.deleteMany(keys)
      const { code, errors } = await refused.then(
        () => ({ code: 'none', errors: new Map() }),
        (error) => error,
      )
      expect([code, errors.size]).toEqual(['ERR_STAMPEDE_MANY_FAILED', keys.length])
    }
    await server.resume()
  }, 120_000)
})

describe('a process', () => {
  const worker = new URL('../harness/servers/many-worker.mjs', import.meta.url)
  const otherBuild = new URL('../harness/servers/other-build.mjs', import.meta.url)

  it('fills the keys of one that was killed during its run, in one further run', async () => {
    await using server = await startRedis()
    await using fleet = await startFleet({ size: 1, entry: worker, env: { REDIS_URL: server.url } })
    const [member] = fleet.members
    await member?.ask({ do: 'hang', keys: keysOf(5) })
    await member?.kill()
    const { cache } = await open(at(server.url))
    const runs: string[] = []
    const values = await cache.getOrSetMany(
      keysOf(6),
      (its) => {
        runs.push([...its].sort().join(' '))
        return load(its)
      },
      { waitMs: 60_000 },
    )
    expect(values).toEqual(await load(keysOf(6)))
    expect(runs).toEqual(['k5', 'k0 k1 k2 k3 k4'])
  }, 120_000)

  it('drops its copies of a cache that is cleared, also in the previous version', async () => {
    await using server = await startRedis()
    // It knows no purges of caches, and its own values lack the mark of their cache.
    const edits = [
      ['/packages/core/dist/ports/subject.js', "    c: 'cache',", ''],
      ['/packages/core/dist/data/get-or-set.js', '[cacheSubject(name)]', '[]'],
    ]
    const env = {
      REDIS_URL: server.url,
      APP: worker.href,
      EDITS: JSON.stringify(edits),
      EDITED: '1',
    }
    await using fleet = await startFleet({ size: 2, entry: otherBuild, env })
    const [current, previous] = fleet.members as [Member, Member]
    await current.ask({ do: 'set', keys: ['new'] })
    await previous.ask({ do: 'set', keys: ['old'] })
    for (const member of [current, previous])
      expect(await member.ask({ do: 'get', keys: ['new', 'old'] })).toEqual(['new', 'old'])
    await current.ask({ do: 'clear' })
    // The value of the previous version stays, as the documentation of clear() says.
    for (const member of [current, previous]) {
      const left = () => member.ask({ do: 'get', keys: ['new', 'old'] })
      await expect.poll(left, { timeout: 20_000 }).toEqual(['old'])
    }
    for (const member of fleet.members) await assertCleanExit(member)
  }, 120_000)
})

type Member = Awaited<ReturnType<typeof startFleet>>['members'][number]
