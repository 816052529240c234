import { createStampede, memoryStore, type Stampede } from '@stampede/core'
import { createLocks } from '@stampede/locks'
import {
  AggregatorRegistry,
  Counter,
  type OpenMetricsContentType,
  Registry,
  register,
} from 'prom-client'
import { afterEach, describe, expect, it } from 'vitest'
import { BUCKETS } from './histograms.ts'
import { type LockStats, METRICS } from './metric-table.ts'
import { stampedeMetrics } from './stampede-metrics.ts'

const open: Stampede[] = []
afterEach(async () => {
  register.clear()
  await Promise.all(open.splice(0).map((stampede) => stampede.close()))
})

function create(): Stampede {
  const stampede = createStampede()
  open.push(stampede)
  return stampede
}

const LOCKS: LockStats = {
  acquired: 9,
  contended: 4,
  timedOut: 3,
  aborted: 2,
  lost: 1,
  released: 7,
  unavailable: 5,
  waitedMs: 1_500,
  heldMs: 2_500,
  held: 6,
  waiting: 8,
}

/** The lines of a scrape that have values, without those of histograms. */
async function samples(registry: { metrics(): Promise<string> } = register): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter((line) => line !== '' && !line.startsWith('#') && !/_duration_/.test(line))
}

async function load(stampede: Stampede, key = 'user:1'): Promise<void> {
  const get = () => stampede.getOrSet(key, () => 'Ada', { ttlMs: 60_000 })
  await get()
  await get()
}

describe('responses_not_stored_total', () => {
  it('counts decisions about responses only, so without hit-for-miss and bypasses', () => {
    const stats = create().stats()
    const notCached = { '/a': { private: 2, 'hit-for-miss': 9, cookie: 5 }, '/b': { private: 1 } }
    const read = METRICS.responses_not_stored_total?.read
    expect(read?.({ stats: { ...stats, notCached, bypasses: { cookie: 5 } } } as never)).toEqual([
      [3, { reason: 'private' }],
    ])
  })
})

describe('a scrape', () => {
  it('has the values of stats() at that moment', async () => {
    const stampede = create()
    stampedeMetrics({ stampede })
    await load(stampede)
    const first = await samples()
    expect(first).toContain('stampede_hits_total{stampede="default",tier="l1"} 1')
    const misses = 'stampede_requests_total{stampede="default",route="user",outcome="miss"}'
    expect(first).toContain(`${misses} 1`)
    await load(stampede, 'user:2')
    expect(await samples()).toContain(`${misses} 2`)
    // A second scrape does not add to the first one.
    expect(await samples()).toContain(`${misses} 2`)
  })

  it('reads stats() once for all metrics', async () => {
    const stampede = create()
    let calls = 0
    const stats = () => {
      calls += 1
      return stampede.stats()
    }
    const counted = { ...stampede, stats }
    stampedeMetrics({ stampede: counted })
    await register.metrics()
    expect(calls).toBe(1)
    await register.getMetricsAsJSON()
    expect(calls).toBe(2)
  })

  it('has every number of stats() and of locks.stats(), apart from sums of others', () => {
    const stats = create().stats()
    const unread = new Set<string>()
    const watched = (value: object, path: string): object =>
      new Proxy(value, {
        get(target, name) {
          const each = Reflect.get(target, name)
          const at = `${path}.${String(name)}`
          unread.delete(at)
          return typeof each === 'object' && each !== null ? watched(each, at) : each
        },
      })
    const list = (value: object, path: string): void => {
      for (const [name, each] of Object.entries(value)) {
        if (typeof each === 'object') list(each, `${path}.${name}`)
        else unread.add(`${path}.${name}`)
      }
    }
    const route = { hits: 1, stale: 1, misses: 1, bypasses: 1 }
    const times = { runs: 1, originMs: 1, savedMs: 1, bytes: 1 }
    const snapshot = { stats: { ...stats, routes: { '/': { ...route, ...times } } }, locks: LOCKS }
    list(snapshot, '')
    for (const { read } of Object.values(METRICS)) read(watched(snapshot, '') as typeof snapshot)
    expect([...unread]).toEqual([
      '.stats.misses',
      '.stats.ratios.hitRatio',
      '.stats.ratios.saved',
      '.stats.waits.totalMs',
      '.stats.origin.savedMs',
    ])
  })

  it('has all outcomes of idempotency keys from the start, so that a first one is an increase', async () => {
    stampedeMetrics({ stampede: create() })
    const series = await samples()
    expect(series.filter((line) => /idempotency_requests_total.* 0$/.test(line))).toHaveLength(15)
  })

  it('has no age of the confirmation while there is none', () => {
    const stats = create().stats()
    const read = METRICS.store_confirmed_age_seconds?.read
    const at = (confirmedAgoMs: number | undefined) =>
      read?.({ stats: { ...stats, store: { ...stats.store, confirmedAgoMs } }, locks: undefined })
    expect(at(undefined)).toEqual([])
    expect(at(2_500)).toEqual([[2.5]])
  })

  it('has labels of at most 200 routes, and escapes their text', async () => {
    const stampede = create()
    stampedeMetrics({ stampede })
    for (let i = 0; i < 300; i++) await load(stampede, `group${i}:1`)
    await load(stampede, 'a"b\\c\n:1')
    const lines = (await samples()).filter((line) => line.startsWith('stampede_served_bytes_total'))
    expect(lines).toHaveLength(201)
    expect(lines).toContain('stampede_served_bytes_total{stampede="default",route="(other)"} 505')
  })

  it('works with a registry for OpenMetrics', async () => {
    const registry = new Registry<OpenMetricsContentType>()
    registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
    const stampede = create()
    const metrics = stampedeMetrics({ stampede, registry })
    await load(stampede)
    expect(await samples(registry)).toContain('stampede_hits_total{stampede="default",tier="l1"} 1')
    expect(await samples(registry)).toContain('stampede_hits_total{stampede="default",tier="l1"} 1')
    metrics.close()
    expect(await registry.metrics()).toBe('\n# EOF\n')
  })
})

describe('locks', () => {
  it('have series with the option `locks` only', async () => {
    const stampede = create()
    const metrics = stampedeMetrics({ stampede })
    expect((await samples()).filter((line) => /_locks?_/.test(line))).toEqual([])
    metrics.close()
    stampedeMetrics({ stampede, locks: { stats: () => LOCKS } })
    expect((await samples()).filter((line) => /_locks?_/.test(line))).toEqual([
      'stampede_lock_calls_total{stampede="default",outcome="acquired"} 9',
      'stampede_lock_calls_total{stampede="default",outcome="timed-out"} 3',
      'stampede_lock_calls_total{stampede="default",outcome="aborted"} 2',
      'stampede_lock_calls_total{stampede="default",outcome="unavailable"} 5',
      'stampede_lock_contended_total{stampede="default"} 4',
      'stampede_lock_leases_ended_total{stampede="default",outcome="released"} 7',
      'stampede_lock_leases_ended_total{stampede="default",outcome="lost"} 1',
      'stampede_lock_wait_seconds_total{stampede="default"} 1.5',
      'stampede_lock_held_seconds_total{stampede="default"} 2.5',
      'stampede_locks_held{stampede="default"} 6',
      'stampede_locks_waiting{stampede="default"} 8',
    ])
  })

  it('have the values of createLocks', async () => {
    const locks = createLocks({ store: memoryStore() })
    stampedeMetrics({ stampede: create(), locks })
    await (await locks.acquire('door')).release()
    const held = await locks.acquire('door')
    const late = locks.acquire('door', { waitMs: 5 })
    await expect(late).rejects.toMatchObject({ code: 'ERR_LOCK_WAIT_TIMEOUT' })
    const waiting = locks.acquire('door', { waitMs: 60_000 })
    await expect.poll(() => locks.stats().waiting).toBe(1)
    expect(await samples()).toEqual(
      expect.arrayContaining([
        'stampede_lock_calls_total{stampede="default",outcome="acquired"} 2',
        'stampede_lock_calls_total{stampede="default",outcome="timed-out"} 1',
        'stampede_lock_contended_total{stampede="default"} 2',
        'stampede_lock_leases_ended_total{stampede="default",outcome="released"} 1',
        'stampede_locks_held{stampede="default"} 1',
        'stampede_locks_waiting{stampede="default"} 1',
      ]),
    )
    await held.release()
    await (await waiting).release()
    await locks.close()
    expect(await samples()).toContain('stampede_locks_held{stampede="default"} 0')
  })
})

describe('histograms', () => {
  const valuesOf = async (name: string): Promise<unknown[]> => {
    const metrics = await register.getMetricsAsJSON()
    return metrics.find((metric) => metric.name === name)?.values ?? []
  }

  it('observe the duration of each fill', async () => {
    const stampede = create()
    stampedeMetrics({ stampede })
    await load(stampede)
    const values = await valuesOf('stampede_fill_duration_seconds')
    const committed = { stampede: 'default', outcome: 'committed' }
    expect(values).toContainEqual(expect.objectContaining({ labels: committed, value: 1 }))
    expect(values).toContainEqual({
      labels: { ...committed, le: 30 },
      value: 1,
      exemplar: null,
      metricName: 'stampede_fill_duration_seconds_bucket',
    })
  })

  it('have buckets in steps of at most 2.5 from 10 ms to 10 s', () => {
    for (const [i, bound] of BUCKETS.entries()) {
      const before = BUCKETS[i - 1] ?? bound
      if (before >= 0.01 && bound <= 10) expect(bound / before).toBeLessThanOrEqual(2.5 + 1e-9)
    }
  })
})

describe('several Stampedes in one registry', () => {
  it('differ by the label `stampede`', async () => {
    const [one, two] = [create(), create()]
    stampedeMetrics({ stampede: one, labels: { stampede: 'one' } })
    stampedeMetrics({ stampede: two, labels: { stampede: 'two' } })
    await load(two)
    const hits = (await samples()).filter((line) => line.startsWith('stampede_hits_total'))
    expect(hits).toEqual([
      'stampede_hits_total{stampede="one",tier="l1"} 0',
      'stampede_hits_total{stampede="one",tier="l2"} 0',
      'stampede_hits_total{stampede="two",tier="l1"} 1',
      'stampede_hits_total{stampede="two",tier="l2"} 0',
    ])
  })

  it('leave the registry one by one', async () => {
    const [one, two] = [create(), create()]
    const metrics = stampedeMetrics({ stampede: one, labels: { stampede: 'one' } })
    const others = stampedeMetrics({ stampede: two, labels: { stampede: 'two' } })
    metrics.close()
    metrics.close()
    expect(await register.metrics()).not.toContain('stampede="one"')
    expect(await register.metrics()).toContain('stampede="two"')
    await load(one)
    expect(await register.metrics()).not.toContain('stampede="one"')
    others.close()
    expect(await register.metrics()).toBe('\n')
    stampedeMetrics({ stampede: one, labels: { stampede: 'one', app: 'shop' } })
    expect(await register.metrics()).toContain('{app="shop",stampede="one"}')
  })

  it('register again after `registry.clear()`', async () => {
    const stampede = create()
    stampedeMetrics({ stampede })
    register.clear()
    stampedeMetrics({ stampede })
    expect(await register.metrics()).toContain('stampede_l1_entries{stampede="default"} 0')
  })

  it('are refused with equal labels, or with other label names', () => {
    stampedeMetrics({ stampede: create() })
    expect(() => stampedeMetrics({ stampede: create() })).toThrow(
      /a Stampede in this registry has these labels; close its metrics, or name this Stampede/,
    )
    expect(() => stampedeMetrics({ stampede: create(), labels: { app: 'shop' } })).toThrow(
      /use the label names of the other Stampedes in this registry: stampede$/,
    )
  })
})

describe('the workers of a cluster', () => {
  it('are summed, but a store is as available as the worst, and as confirmed as the oldest', async () => {
    const scrapes = []
    for (const [available, confirmedAgoMs] of [
      [true, 100],
      [false, 7_000],
    ] as const) {
      const stampede = create()
      const stats = () => {
        const now = stampede.stats()
        return { ...now, store: { ...now.store, available, confirmedAgoMs } }
      }
      const registry = new Registry()
      stampedeMetrics({ stampede: { ...stampede, stats } as Stampede, registry })
      await load(stampede)
      scrapes.push(await registry.getMetricsAsJSON())
    }
    const all = await samples(AggregatorRegistry.aggregate(scrapes))
    expect(all).toContain('stampede_hits_total{stampede="default",tier="l1"} 2')
    expect(all).toContain('stampede_store_available{stampede="default"} 0')
    expect(all).toContain('stampede_store_confirmed_age_seconds{stampede="default"} 7')
    expect(all).toContain('stampede_store_info{stampede="default",store="memory"} 1')
  })
})

describe('options', () => {
  it.each([
    [
      undefined,
      /stampedeMetrics.stampede: received undefined; pass what createStampede\(\) returned/,
    ],
    [{ stampede: {} }, /stampedeMetrics.stampede: .*; pass what createStampede\(\) returned/],
    [{ locks: {} }, /stampedeMetrics.locks: .*; pass what createLocks\(\) returned/],
    [{ registry: {} }, /stampedeMetrics.registry: .*; pass a Registry of prom-client/],
    [{ prefix: 'shop_' }, /stampedeMetrics.prefix: .*; use labels, such as \{ app: 'shop' \}/],
    [{ labels: 'x' }, /stampedeMetrics.labels: received "x"; pass an object of strings/],
    [{ labels: { app: 7 } }, /stampedeMetrics.labels.app: received 7; use a string/],
    [{ labels: { route: '/' } }, /stampedeMetrics.labels: received "route"; the metrics use/],
    [{ labels: { 'a-b': '' } }, /stampedeMetrics.labels: received "a-b"; use a name of letters/],
    [{ name: 'x' }, /stampedeMetrics.name: received "x"; there is no such option/],
  ])('%o is refused', (options, message) => {
    const all = options && { stampede: create(), ...options }
    expect(() => stampedeMetrics(all as never)).toThrow(message)
  })

  it('refuse a name that the registry has for another metric', async () => {
    const registry = new Registry()
    new Counter({ name: 'stampede_hits_total', help: 'x', registers: [registry] })
    const stampede = create()
    expect(() => stampedeMetrics({ stampede, registry })).toThrow(
      /it has a metric "stampede_hits_total" of other code; pass another registry/,
    )
    expect(registry.getMetricsAsArray()).toHaveLength(1)
  })
})
