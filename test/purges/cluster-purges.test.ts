// Purges on a Redis Cluster. Every script of the cache finds its keys in one slot. A purge by one
// process reaches the others, although the log is on one node and the entries are on all.

import { createStampede, type PurgeTarget, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type RedisCluster, startRedisCluster } from '../harness/redis-cluster.ts'

const KEYS = Array.from({ length: 12 }, (_, n) => `key ${n}`)

let cluster: RedisCluster
let processes: Stampede[]
let calls = 0

// The nodes give clients their own addresses, which are not reachable from outside a container.
describe.each(inject('serverBinaries'))('a cache on a cluster of $name', ({ source }) => {
  beforeAll(async () => {
    cluster = await startRedisCluster({ source })
    processes = [1, 2].map(() => {
      const client = cluster.client('6', { lazyConnect: true })
      return createStampede({ store: redisStore(client, { commandTimeoutMs: 1_000 }) })
    })
    await everywhere()
  }, 15_000)
  afterAll(async () => {
    for (const each of processes ?? []) await each.close()
    await cluster?.stop()
  })

  const get = (from: Stampede, key: string) =>
    from.getOrSet(key, () => ++calls, { ttlMs: 60_000, tags: ['all of them', key] })

  /** The response of each process for each key. */
  const everywhere = () =>
    Promise.all(KEYS.map((key) => Promise.all(processes.map((each) => get(each, key)))))

  it('runs the origin once for each key', async () => {
    const before = calls
    const fresh = await Promise.all(processes.map((each) => get(each, 'another')))
    expect(new Set(fresh).size).toBe(1)
    expect(calls).toBe(before + 1)
  })

  it.each<[string, PurgeTarget, object, number]>([
    ['a tag', { tag: 'all of them' }, {}, KEYS.length],
    ['a tag of one page', { tag: 'key 7' }, {}, 1],
    ['a key', { key: 'key 3' }, {}, 1],
    ['several tags', { tags: ['key 1', 'no key', 'key 7'] }, {}, 2],
    ['several keys', { keys: ['key 3', 'no key', 'key 5'] }, {}, 2],
    ['everything', { all: true }, {}, KEYS.length],
    ['a tag, softly', { tag: 'all of them' }, { soft: true }, KEYS.length],
  ])('purges %s in all processes', async (_, target, options, entries) => {
    const before = (await everywhere()).flat()
    const callsBefore = calls
    await processes[0]?.purge(target, options)
    const isNew = (value: number) => !before.includes(value)
    const news = async () => (await everywhere()).flat().filter(isNew).length
    await expect.poll(news).toBe(entries * processes.length)
    expect(calls).toBe(callsBefore + entries)
  })

  it('shares an entry that a 304 confirmed', async () => {
    let runs = 0
    const ask = (from: Stampede) =>
      from.getOrSet<string>(
        'unchanged',
        ({ previous, notModified }) => {
          runs += 1
          return previous ? notModified() : 'same'
        },
        { ttlMs: 200, keepMs: 60_000, jitter: 0 },
      )
    const [a, b] = processes as [Stampede, Stampede]
    const failures = () => processes.map((each) => each.stats().store.failures)
    const before = failures()
    await ask(a)
    await ask(b)
    await new Promise((resolve) => setTimeout(resolve, 250))
    expect([await ask(a), await ask(b)]).toEqual(['same', 'same'])
    expect(runs).toBe(2)
    expect(failures()).toEqual(before)
  })

  it('names the keys of a node that does not reply, and purges the others', async () => {
    const [a, b] = processes as [Stampede, Stampede]
    const ownerOf = (name: string) => cluster.ownerOf(cluster.slotOf(`stampede:4:{${name}}`))
    const node = cluster.nodes.find((each) => each !== ownerOf('purges'))
    // A name may be the key of a value and of a response, which are two records.
    const isAway = (key: string) =>
      [`=d:=${key}`, `=http:key ${key.length + 1}:=${key}`].some((name) => ownerOf(name) === node)
    const before = (await everywhere()).flat()
    node?.pause()
    const { message } = await a.purge({ keys: KEYS }).then(
      () => new Error('the purge succeeded'),
      (error: Error) => error,
    )
    node?.resume()
    const named = [...message.matchAll(/"(key \d+)"/g)].map(([, key]) => key)
    expect(named.sort()).toEqual(KEYS.filter(isAway).sort())
    const left = KEYS.filter((key) => !isAway(key))
    expect(named.length * left.length).toBeGreaterThan(0)
    const old = async () => {
      const values = await Promise.all(left.map((key) => get(b, key)))
      return values.filter((value) => before.includes(value))
    }
    await expect.poll(old).toEqual([])
  }, 20_000)

  it('responds, but rejects purges, while the node of the purge log is unavailable', async () => {
    const [a, b] = processes as [Stampede, Stampede]
    const node = cluster.ownerOf(cluster.slotOf('stampede:4:{purges}:log'))
    node.pause()
    try {
      await expect(a.purge({ tag: 'key 1' })).rejects.toMatchObject({
        code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      })
      expect(await get(b, 'new while it is away')).toBeGreaterThan(0)
    } finally {
      node.resume()
    }
    await expect
      .poll(
        () =>
          a.purge({ tag: 'all of them' }).then(
            () => true,
            () => false,
          ),
        { timeout: 10_000 },
      )
      .toBe(true)
    const old = calls
    const news = async () => (await everywhere()).flat().every((value) => value > old)
    await expect.poll(news).toBe(true)
  }, 20_000)
})
