import { createStampede, type Stampede } from '@stampede/core'
import { REPORT_LIMITS } from '@stampede/core/store'
import { ManualClock, ScriptedOrigin, settled } from '@stampede/core/testing'
import { afterEach, describe, expect, it } from 'vitest'
import { timesSlower } from '../../core/src/testing/cpu-time.ts'
import { FaultyStore, sharedStores } from '../../core/src/testing/store-doubles.ts'
import { HotKeys } from './hot-keys.ts'
import { observe } from './observer.ts'
import { readReport } from './report-form.ts'
import { isReported, reportedKey } from './reported-key.ts'

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

describe('a report of a Stampede', () => {
  it('has the key that is being filled, its lease and its waiters, and no key afterwards', async () => {
    const stampede = create()
    const observer = observe(stampede)
    const origin = new ScriptedOrigin<string>()
    const get = () => stampede.getOrSet('rates:eur', origin.factory, { ttlMs: 1_000 })
    const all = [get(), get(), get()]
    await clock.advance(300)
    expect(observer.report().flights).toEqual([
      {
        key: 'rates:eur',
        id: 'd:=rates:eur',
        state: 'filling',
        hasLease: true,
        ageMs: 300,
        waiters: 2,
      },
    ])
    origin.run(0).resolve('v')
    await Promise.all(all)
    await settled()
    expect(observer.report().flights).toEqual([])
  })

  it('shows a process that waits for the holder of the lease as waiting, without a lease', async () => {
    const stores = sharedStores()
    const [a, b] = [create(stores.a), create(stores.b)]
    const origin = new ScriptedOrigin<string>()
    const get = (stampede: Stampede) => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000 })
    const first = get(a)
    await settled()
    const second = get(b)
    await settled()
    const { flights } = observe(b).report()
    expect(flights).toMatchObject([{ key: 'k', state: 'waiting', hasLease: false, waiters: 1 }])
    origin.run(0).resolve('v')
    await Promise.all([first, second])
    await settled()
  })

  it('has no idempotency key, because reports are published in Redis', async () => {
    const stampede = create()
    const observer = observe(stampede)
    await stampede.idempotent('job:s3cret', () => 1)
    await settled()
    const report = observer.report()
    expect(report.recent.map(({ type }) => type)).toContain('idempotency.finished')
    expect(JSON.stringify(report)).not.toContain('s3cret')
  })

  it('has the latest events as JSON, without hits, and the keys hit most', async () => {
    const stampede = create()
    const observer = observe(stampede)
    const get = (key: string) => stampede.getOrSet(key, () => 1, { ttlMs: 60_000 })
    for (const key of ['a', 'b', 'a', 'a', 'b']) await get(key)
    const { recent, hotKeys } = observer.report()
    expect(recent.map(({ type, key }) => `${type} ${key}`)).toEqual(
      ['a', 'b'].flatMap((key) =>
        ['lease.granted', 'fill.started', 'fill.committed'].map((type) => `${type} ${key}`),
      ),
    )
    expect(recent[0]?.fields).toEqual({ reason: 'absent', fence: expect.any(String) })
    expect(hotKeys.map(({ key, hits }) => [key, hits])).toEqual([
      ['a', 2],
      ['b', 1],
    ])
    // Times and memory may change between two reports.
    expect(readReport(observer.reportText())).toMatchObject({ recent, hotKeys })
  })

  it('has the operator of the store, and knows whether the Stampede is closed', async () => {
    const store = new FaultyStore()
    const stampede = create(store)
    const observer = observe(stampede)
    expect([observer.operator, observer.isClosed]).toEqual([store.operator, false])
    await stampede.close()
    expect(observer.isClosed).toBe(true)
  })

  it('collects nothing after close', async () => {
    const stampede = create()
    const observer = observe(stampede)
    observer.close()
    await stampede.getOrSet('k', () => 1, { ttlMs: 60_000 })
    await stampede.getOrSet('k', () => 1, { ttlMs: 60_000 })
    const { recent, hotKeys } = observer.report()
    expect([recent, hotKeys]).toEqual([[], []])
  })
})

describe('the text of a report', () => {
  it('keeps within the limit, with any keys and routes', async () => {
    const stampede = create()
    const observer = observe(stampede)
    for (let i = 0; i < 300; i++) {
      const key = `${'r'.repeat(180)}${i}:${'"'.repeat(200)}`
      for (let j = 0; j < 2; j++) await stampede.getOrSet(key, () => 1, { ttlMs: 60_000 })
    }
    const text = observer.reportText()
    expect(text.length).toBeLessThanOrEqual(REPORT_LIMITS.characters)
    const report = readReport(text)
    expect(report?.hotKeys.length).toBeGreaterThan(3)
    const hits = Object.values(report?.stats.routes ?? {}).map((route) => route.hits ?? 0)
    expect(hits.reduce((sum, each) => sum + each)).toBe(300)
  })

  it.each([
    [true, '500 no rate for eur'],
    [false, 500],
  ])('with showKeys: %s has the failure of a run as %j', async (showKeys, failure) => {
    const stampede = create()
    const observer = observe(stampede, { showKeys })
    const fail = () => Promise.reject(new Error('no rate for eur'))
    await expect(stampede.getOrSet('rates', fail, { ttlMs: 1_000 })).rejects.toThrow('no rate')
    const failed = observer.report().recent.find(({ type }) => type === 'fill.failed')
    expect(failed?.fields).toEqual({ failure, elapsedMs: expect.any(Number) })
  })
})

describe('the id of a key in a report', () => {
  const key = `d:=${'k'.repeat(500)}`
  it.each([
    ['long', key, true],
    ['hidden', 'd:=k', false],
    ['hidden variant', 'd:=k\0v', false],
    ['shown variant', 'd:=k\0v', true],
  ])('is found by the internal key if it is that of a %s key', (_, internalKey, showKeys) => {
    const { id } = reportedKey(internalKey, showKeys)
    expect(isReported(internalKey)(id)).toBe(true)
    expect(isReported('d:=other')(id)).toBe(false)
  })
})

describe('HotKeys', () => {
  it('keeps the keys that are hit often among any number of other keys', () => {
    const hot = new HotKeys(() => 0)
    for (let i = 0; i < 20_000; i++) {
      hot.hit(`client ${i}`)
      if (i % 20 === 0) hot.hit('home')
      if (i % 40 === 0) hot.hit('about')
    }
    expect(hot.top(2).map(({ key }) => key)).toEqual(['home', 'about'])
  })

  it('halves the counts every 30 s, so that a key that is no longer hit disappears', () => {
    let now = 0
    const hot = new HotKeys(() => now)
    for (let i = 0; i < 8; i++) hot.hit('old')
    now += 30_000
    expect(hot.top(1)).toEqual([{ key: 'old', hits: 4 }])
    now += 300_000
    expect(hot.top(1)).toEqual([])
  })
})

describe('the cost of a hit for HotKeys', () => {
  it('stays small if more keys are hit than are counted', () => {
    const hits = (distinct: number): (() => void) => {
      const hot = new HotKeys(() => 0)
      const keys = Array.from({ length: distinct }, (_, i) => `key ${i}`)
      return () => {
        for (let i = 0; i < 200_000; i++) hot.hit(keys[(i * 7_919) % distinct] as string)
      }
    }
    expect(timesSlower(hits(5_000), hits(200), 15)).toBeLessThanOrEqual(15)
  })
})
