// Calls with many keys on a real Redis: their commands, and the effect of one bad key.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { dataKey } from '../../packages/core/src/ports/key.ts'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { startRedisCluster } from '../harness/redis-cluster.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const { record } = names('stampede')
const recordOf = (key: string) => record(dataKey(`n:${key}`))
beforeEach(async () => {
  await admin.config('SET', 'maxmemory', '0')
  await admin.flushall()
})

/** A process without values in memory, unless `l1` says so. */
async function open(l1: object = { maxEntries: 0 }) {
  const client = new Redis(server.url, { lazyConnect: true })
  const stampede = createStampede({ store: redisStore(client, PATIENT), l1 })
  onTestFinished(() => stampede.close())
  const cache = stampede.cache('n', { ttlMs: 60_000 })
  // Connected, the purge log is read, and all scripts are loaded.
  await cache.setMany([
    ['warm1', 1],
    ['warm2', 1],
  ])
  await cache.getMany(['warm1', 'warm2'])
  return { stampede, cache }
}

const keysOf = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `k${from + i}`)
const load = async (keys: readonly string[]) => new Map(keys.map((key) => [key, `value of ${key}`]))
const eventsOf = (stampede: Stampede, type: 'store.failed' | 'fill.committed') => {
  const seen: string[] = []
  stampede.on(type, ({ key }) => seen.push(key))
  return seen
}

/** Fills the keys, and resolves after their commits, for which callers do not wait. */
async function fillAll(
  { stampede, cache }: Awaited<ReturnType<typeof open>>,
  keys: readonly string[],
): Promise<void> {
  const committed = eventsOf(stampede, 'fill.committed')
  await cache.getOrSetMany(keys, load)
  await expect.poll(() => committed.length).toBe(keys.length)
}

/** The commands with scripts that clients sent meanwhile. Heartbeats send none. */
async function scriptsIn(work: () => Promise<unknown>): Promise<number> {
  const trace = await server.traceCommands()
  await work()
  const sent = await trace.stop()
  return sent.filter(({ name, from }) => from === 'client' && /^eval/.test(name)).length
}

describe('a call with 100 keys', () => {
  const keys = keysOf(100)

  it('fills all in two commands for the lookups and two for the commits', async () => {
    const process = await open()
    expect(await scriptsIn(() => fillAll(process, keys))).toBe(4)
    for (const key of keys) expect(await admin.hexists(recordOf(key), 'frame')).toBe(1)
  })

  it('reads all in two commands', async () => {
    await fillAll(await open(), keys)
    const other = await open()
    let found: unknown
    const sent = await scriptsIn(async () => {
      found = await other.cache.getMany(keys)
    })
    expect(sent).toBe(2)
    expect(found).toEqual(await load(keys))
  })

  it('costs another process at most four commands while it waits for the fill', async () => {
    const [first, second] = [await open(), await open()]
    const [begun, gate] = [createGate(), createGate()]
    const filling = first.cache.getOrSetMany(keys, async (its) => {
      begun.open()
      await gate.opened
      return load(its)
    })
    await begun.opened
    const trace = await server.traceCommands()
    const waiting = second.cache.getOrSetMany(keys, load)
    await expect.poll(() => second.stampede.stats().waits.started).toBe(keys.length)
    gate.open()
    expect(await waiting).toEqual(await load(keys))
    await filling
    const sent = await trace.stop()
    // Two commits are of the first process.
    expect(
      sent.filter(({ name, from }) => from === 'client' && /^eval/.test(name)).length - 2,
    ).toBe(2)
  })

  it('purges all in two commands, and at most one each for the purge log', async () => {
    const process = await open()
    const { cache } = process
    await fillAll(process, keys)
    // The replies of both may arrive together, and are then followed by one command.
    expect([3, 4]).toContain(await scriptsIn(() => cache.deleteMany(keys)))
    expect(await cache.getMany(keys)).toEqual(new Map())
  })

  it('sets all in seven or eight commands', async () => {
    const { cache } = await open()
    const entries = await load(keys)
    expect([7, 8]).toContain(await scriptsIn(() => cache.setMany(entries)))
    expect(await cache.getMany(keys)).toEqual(entries)
  })

  it('ends the leases of a failed run in two commands', async () => {
    const { cache } = await open()
    const fails = async () => {
      throw new Error('down')
    }
    expect(await scriptsIn(() => cache.getOrSetMany(keys, fails).catch(() => {}))).toBe(4)
    expect(await cache.getOrSetMany(keys, load)).toEqual(await load(keys))
  })
})

it('renews the leases of one run in one command each time', async () => {
  const { cache } = await open()
  const keys = keysOf(20)
  const [begun, gate] = [createGate(), createGate()]
  const filling = cache.getOrSetMany(
    keys,
    async (its) => {
      begun.open()
      await gate.opened
      return load(its)
    },
    { leaseMs: 300 },
  )
  await begun.opened
  const trace = await server.traceCommands()
  const leaseOf = () => admin.hget(recordOf('k19'), 'lease')
  const before = await leaseOf()
  await expect.poll(leaseOf, { timeout: 20_000 }).not.toBe(before)
  const sent = await trace.stop()
  const renewals = sent.filter(({ name, from }) => from === 'client' && /^eval/.test(name))
  expect(renewals.length).toBeLessThanOrEqual(3)
  gate.open()
  expect(await filling).toEqual(await load(keys))
})

it('sends large values in several commands of one write, and reads them back', async () => {
  const { cache } = await open()
  const keys = keysOf(12)
  const large = new Map(keys.map((key) => [key, key.repeat(100_000)]))
  expect(await cache.getOrSetMany(keys, () => large)).toEqual(large)
  const other = await open()
  expect(await other.cache.getMany(keys)).toEqual(large)
})

describe('one bad key of a call', () => {
  it('is filled if its record has a corrupt frame, and the others are read', async () => {
    const { cache } = await open()
    const keys = keysOf(64)
    await cache.getOrSetMany(keys, load)
    await admin.hset(recordOf('k7'), 'frame', 'corrupt')
    await admin.hset(recordOf('k8'), 'frame', Buffer.from([255, 255, 1, 2]))
    const other = await open()
    const asked: string[] = []
    const values = await other.cache.getOrSetMany(keys, (its) => {
      asked.push(...its)
      return load(its)
    })
    expect(values).toEqual(await load(keys))
    expect(asked.every((key) => key === 'k7' || key === 'k8')).toBe(true)
    expect((await other.cache.getMany(keys)).size).toBeGreaterThanOrEqual(62)
  })

  it('is filled if its record has another type', async () => {
    const { cache } = await open()
    await admin.set(recordOf('k1'), 'text')
    const keys = keysOf(3)
    expect(await cache.getOrSetMany(keys, load)).toEqual(await load(keys))
    expect(await admin.type(recordOf('k1'))).toBe('hash')
  })

  it('fails alone in a commit that Redis refuses', async () => {
    const { stampede, cache } = await open()
    const keys = keysOf(3)
    const failed = eventsOf(stampede, 'store.failed')
    const committed = eventsOf(stampede, 'fill.committed')
    const values = await cache.getOrSetMany(keys, async (its) => {
      // The commit gets an error for this key, as its record is of another type now.
      await admin.set(recordOf('k1'), 'text')
      return load(its)
    })
    expect(values).toEqual(await load(keys))
    await expect.poll(() => committed).toEqual(['n:k0', 'n:k2'])
    expect(new Set(failed)).toEqual(new Set(['n:k1']))
  })

  it('keeps the values in this process if Redis has no memory for them', async () => {
    const { cache } = await open({})
    const keys = keysOf(3)
    const values = await cache.getOrSetMany(keys, async (its) => {
      await admin.config('SET', 'maxmemory', '1')
      return load(its)
    })
    expect(values).toEqual(await load(keys))
  })

  it('is not stored if Redis lost all records between the lookup and the commit', async () => {
    const { cache } = await open()
    const keys = keysOf(3)
    const values = await cache.getOrSetMany(keys, async (its) => {
      await admin.flushall()
      return load(its)
    })
    expect(values).toEqual(await load(keys))
    for (const key of keys) expect(await admin.exists(recordOf(key))).toBe(0)
    expect(await cache.getOrSetMany(keys, load)).toEqual(values)
  })

  it('loads the scripts again if Redis forgot them', async () => {
    const { cache } = await open()
    await admin.script('FLUSH')
    const keys = keysOf(3)
    expect(await cache.getOrSetMany(keys, load)).toEqual(await load(keys))
    await admin.script('FLUSH')
    expect(await cache.getMany(keys)).toEqual(await load(keys))
    await cache.deleteMany(keys)
    expect(await cache.getMany(keys)).toEqual(new Map())
  })
})

it('sends each key alone to a node of a cluster, for a client that knows of no cluster', async () => {
  await using cluster = await startRedisCluster({ masters: 1 })
  const url = (cluster.nodes[0] as { url: string }).url
  const client = new Redis(url, { lazyConnect: true })
  const stampede = createStampede({ store: redisStore(client, PATIENT), l1: { maxEntries: 0 } })
  onTestFinished(() => stampede.close())
  const failed = eventsOf(stampede, 'store.failed')
  const cache = stampede.cache('n', { ttlMs: 60_000 })
  const keys = keysOf(100)
  expect((await cache.getOrSetMany(keys, load)).size).toBe(100)
  expect(await cache.getMany(keys)).toEqual(await load(keys))
  await cache.setMany(keys.map((key) => [key, 'set']))
  expect(new Set((await cache.getMany(keys)).values())).toEqual(new Set(['set']))
  await cache.deleteMany(keys)
  expect(await cache.getMany(keys)).toEqual(new Map())
  expect(failed).toEqual([])
})

it('has another process fill the keys of one that closes between lookup and commit', async () => {
  const [dead, alive] = [await open(), await open()]
  const begun = createGate()
  void dead.cache
    .getOrSetMany(
      keysOf(5),
      async () => {
        begun.open()
        return new Promise<never>(() => {})
      },
      { leaseMs: 500 },
    )
    .catch(() => {})
  await begun.opened
  const runs: string[] = []
  const waiting = alive.cache.getOrSetMany(
    keysOf(6),
    (its) => {
      runs.push([...its].sort().join(' '))
      return load(its)
    },
    { leaseMs: 500, waitMs: 60_000 },
  )
  await dead.stampede.close()
  expect(await waiting).toEqual(await load(keysOf(6)))
  expect(runs).toEqual(['k5', 'k0 k1 k2 k3 k4'])
})
