// A Stampede without a store that processes share: L1 is the cache.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createStampede, type StampedeOptions } from '../index.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import { begin, clock, create, end, transcript } from '../testing/resolve-bench.ts'

beforeEach(begin)
afterEach(end)

function setUp(options: StampedeOptions = {}) {
  const stampede = create(undefined, options)
  const get = (key: string, value: unknown, more = {}) =>
    stampede.getOrSet(key, () => value, { ttlMs: 1_000, ...more })
  return { stampede, get }
}

describe('an entry of a Stampede without a shared store', () => {
  it('is stored and served like an entry in a store, with a fence that increases', async () => {
    const { stampede } = setUp()
    const fences: unknown[] = []
    const get = (key: string) =>
      stampede.getOrSet(key, ({ fence }) => fences.push(fence), { ttlMs: 1_000 })
    expect([await get('a'), await get('a'), await get('b')]).toEqual([1, 1, 2])
    expect(transcript.take()).toEqual([
      ...['lease.granted', 'fill.started', 'fill.committed', 'hit l1'],
      ...['lease.granted', 'fill.started', 'fill.committed'],
    ])
    expect(fences[1]).toBeGreaterThan(fences[0] as bigint)
  })

  const MIB = 1024 * 1024
  it.each([
    ['no limit', undefined, 64 * MIB],
    ['l1.maxBytes', { maxBytes: 100_000 }, 100_000],
    ['a larger l1.maxBytes', { maxBytes: 256 * MIB }, 256 * MIB],
  ])('is kept within maxBytes with %s', async (_what, l1, expected) => {
    const { get, stampede } = setUp({ l1 })
    expect(stampede.stats().l1.maxBytes).toBe(expected)
    for (let i = 0; i < 20; i++) await get(`${i}`, 'a'.repeat(10_000))
    expect(stampede.stats().l1.bytes).toBeLessThanOrEqual(expected)
    expect(stampede.stats().l1.entries).toBe(expected < MIB ? 9 : 20)
  })

  it.each([{ maxBytes: 0 }, { maxEntries: 0 }, { maxEntryBytes: 0 }])(
    'is refused a memory of none: %j',
    (l1) => {
      expect(() => createStampede({ l1 })).toThrow(
        /^createStampede\.l1\.max.*: received 0; without/,
      )
    },
  )

  it('is kept within l1.maxEntries, the most recently used ones, without losing a fill', async () => {
    const { get, stampede } = setUp({ l1: { maxEntries: 3 } })
    for (const key of ['a', 'b', 'c']) await get(key, key)
    await get('a', 'other')
    transcript.take()
    let release = (_value: string) => {}
    const slow = new Promise<string>((resolve) => {
      release = resolve
    })
    const fills = ['x', 'y', 'z', 'u', 'v'].map((key) => get(key, slow))
    await settled()
    release('late')
    expect(await Promise.all(fills)).toEqual(Array(5).fill('late'))
    expect(transcript.take().filter((event) => event === 'fill.committed')).toHaveLength(5)
    for (const key of ['d', 'e', 'f']) await get(key, key)
    expect(stampede.stats().l1.entries).toBe(3)
    transcript.take()
    for (const key of ['d', 'e', 'f']) expect(await get(key, 'other')).toBe(key)
    expect(transcript.take()).toEqual(['hit l1', 'hit l1', 'hit l1'])
  })

  it('is not stored if it is larger than maxBytes, although maxEntryBytes allows it', async () => {
    const { get, stampede } = setUp({ l1: { maxBytes: 5_000, maxEntryBytes: 50_000 } })
    await get('k:1', 'a'.repeat(10_000))
    expect(transcript.take().at(-1)).toBe('fill.passed too-large')
    expect(stampede.stats().notCached).toEqual({ k: { 'too-large': 1 } })
  })

  it('is stale at once after a soft purge, also for waiters that look it up', async () => {
    const { get, stampede } = setUp()
    const windows = { staleWhileRevalidateMs: 500 }
    await get('k', 'old', windows)
    await stampede.purge({ key: 'k' }, { soft: true })
    expect(await get('k', 'new', windows)).toBe('old')
    await settled()
    expect(await get('k', 'newer', windows)).toBe('new')
    await stampede.purge({ key: 'k' }, { soft: true })
    await clock.advance(500)
    expect(await get('k', 'newest', windows)).toBe('newest')
  })
})

describe('a failure without a shared store', () => {
  it('is shared for failureBackoffMs, if requests waited for it', async () => {
    const { stampede } = setUp()
    const origin = new ScriptedOrigin<string>()
    const get = () => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000 })
    const all = [get(), get()].map((each) => each.catch((error: Error) => error.message))
    await settled()
    origin.run(0).reject(new Error('down'))
    expect(await Promise.all(all)).toEqual(['down', 'down'])
    await expect(get()).rejects.toThrow('down')
    expect(origin.calls).toBe(1)
    await clock.advance(1_000)
    const next = get()
    origin.run(1).resolve('up')
    expect(await next).toBe('up')
  })

  it.each([
    ['key, while its run goes on', true],
    ['key, in the stale window', false],
  ])('ends with a purge of its %s', async (_, during) => {
    const { stampede, get } = setUp()
    const windows = { staleWhileRevalidateMs: 60_000 }
    if (!during) await get('k', 'old', windows)
    await clock.advance(1_000)
    const origin = new ScriptedOrigin<string>()
    const ask = () => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000, ...windows })
    const all = [ask(), ask()].map((each) => each.catch(() => 'failed'))
    await settled()
    if (during) await stampede.purge({ key: 'k' })
    await origin.run(0).reject(new Error('down'))
    if (!during) await stampede.purge({ key: 'k' }, { soft: true })
    const next = ask()
    await settled()
    expect(origin.calls).toBe(2)
    await origin.run(1).resolve('new')
    expect(await ask()).toBe('new')
    await Promise.all([...all, next])
  })
})
