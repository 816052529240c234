import { afterEach, describe, expect, it } from 'vitest'
import { createStampede, type Stampede } from '../index.ts'
import { ManualClock, ScriptedOrigin, settled } from '../testing/index.ts'
import { FaultyStore, refuse } from '../testing/store-doubles.ts'
import { Counts } from './counts.ts'

let clock = new ManualClock()
const open: Stampede[] = []
afterEach(async () => {
  const closed = Promise.all(open.splice(0).map((stampede) => stampede.close()))
  await clock.advance(60_000)
  await closed
  clock = new ManualClock()
})

function create(store = new FaultyStore()): Stampede {
  const stampede = createStampede({ store, clock })
  open.push(stampede)
  return stampede
}

describe('stats().routes of getOrSet', () => {
  it('counts the leader and its followers as misses, and later calls as hits', async () => {
    const stampede = create()
    const origin = new ScriptedOrigin<string>()
    const get = () => stampede.getOrSet('user:5', origin.factory, { ttlMs: 10_000, jitter: 0 })
    const both = [get(), get()]
    await clock.advance(200)
    origin.run(0).resolve('Ada')
    await Promise.all(both)
    await settled()
    await get()
    const { routes, origin: times, misses, hits } = stampede.stats()
    expect(routes).toEqual({
      user: {
        hits: 1,
        stale: 0,
        misses: 2,
        bypasses: 0,
        runs: 1,
        originMs: 200,
        savedMs: 200,
        bytes: 5,
      },
    })
    expect({ times, misses, hits }).toEqual({
      times: { totalMs: 200, savedMs: 200 },
      misses: 2,
      hits: { l1: 1, l2: 0 },
    })
  })

  it('counts the origin time that hits save while the store is unavailable', async () => {
    const store = new FaultyStore()
    store.always = refuse
    const stampede = create(store)
    const origin = new ScriptedOrigin<string>()
    const get = () => stampede.getOrSet('k', origin.factory, { ttlMs: 10_000, jitter: 0 })
    const first = get()
    await clock.advance(200)
    origin.run(0).resolve('Ada')
    await first
    await get()
    expect(stampede.stats().origin).toEqual({ totalMs: 200, savedMs: 200 })
  })

  it('groups calls by the name of a stampede.cache, or under (data) for a key without a colon', async () => {
    const stampede = create()
    await stampede.cache('rates', { ttlMs: 1_000 }).getOrSet('eur', () => 1)
    await stampede.getOrSet('plain', () => 1, { ttlMs: 1_000 })
    expect(Object.keys(stampede.stats().routes)).toEqual(['rates', '(data)'])
  })

  it('counts a stale value in place of an error as stale, and an error without a value as a miss', async () => {
    const stampede = create()
    const options = { ttlMs: 1_000, staleIfErrorMs: 60_000, jitter: 0 }
    const get = (factory: () => number) => stampede.getOrSet('k', factory, options)
    const fail = () => {
      throw new Error('down')
    }
    await expect(get(fail)).rejects.toThrow('down')
    await clock.advance(60_000)
    await get(() => 1)
    await settled()
    await clock.advance(2_000)
    expect(await get(fail)).toBe(1)
    const { stale, misses } = stampede.stats()
    expect({ stale: stale['if-error'], misses }).toEqual({ stale: 1, misses: 2 })
  })

  it('counts no saved time for the call whose own run failed', async () => {
    const stampede = create()
    const origin = new ScriptedOrigin<number>()
    const options = { ttlMs: 1_000, staleIfErrorMs: 60_000, jitter: 0 }
    const get = () => stampede.getOrSet('k', origin.factory, options)
    const first = get()
    await clock.advance(500)
    origin.run(0).resolve(1)
    await first
    await settled()
    await clock.advance(2_000)
    const both = [get(), get()]
    await settled()
    origin.run(1).reject(new Error('down'))
    expect(await Promise.all(both)).toEqual([1, 1])
    const { stale, origin: times } = stampede.stats()
    expect([stale['if-error'], times.savedMs]).toEqual([2, 500])
  })

  it('counts a stale hit within stale-while-revalidate once', async () => {
    const stampede = create()
    const options = { ttlMs: 1_000, staleWhileRevalidateMs: 60_000, jitter: 0 }
    const get = () => stampede.getOrSet('k', () => 1, options)
    await get()
    await settled()
    await clock.advance(2_000)
    await get()
    await settled()
    const { stale, misses, hits, routes } = stampede.stats()
    expect({ stale: stale.revalidate, misses, hits }).toEqual({
      stale: 1,
      misses: 1,
      hits: { l1: 1, l2: 0 },
    })
    expect(routes['(data)']).toMatchObject({ hits: 0, stale: 1 })
  })
})

describe('a value that the serializer cannot parse', () => {
  it('is a miss of getOrSet, and no hit of get', async () => {
    const stampede = create()
    const serializer = {
      serialize: JSON.stringify,
      deserialize(): number {
        throw new Error('unreadable')
      },
    }
    const cache = stampede.cache('c', { ttlMs: 10_000, serializer })
    await stampede.getOrSet('c:k', () => 1, { ttlMs: 10_000 })
    await settled()
    const before = stampede.stats()
    expect(await cache.get('k')).toBeUndefined()
    expect(stampede.stats().hits).toEqual(before.hits)
    await cache.getOrSet('k', () => 2).catch(() => {})
    const { hits, misses } = stampede.stats()
    expect([hits, misses]).toEqual([before.hits, before.misses + 1])
  })
})

describe('the number of counted routes', () => {
  it('has a limit, beyond which routes count as (other), as do routes with too long names', () => {
    const counts = new Counts()
    for (let i = 0; i < 500; i++) counts.route(`/route-${i}`).misses += 1
    counts.route('/x'.repeat(500)).misses += 1
    expect(counts.routes.size).toBe(201)
    expect(counts.routes.get('(other)')?.misses).toBe(301)
    expect(counts.route('/route-0').misses).toBe(1)
  })
})
