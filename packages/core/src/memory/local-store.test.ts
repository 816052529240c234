// A memory store as the memory of L1: one place for each entry, without encoding.

import { afterEach, describe, expect, it, vi } from 'vitest'
import { heldEntry, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { createStampede, memoryStore, type Stampede, type StampedeOptions } from '../index.ts'
import { newCopy, newMarker } from '../l1/l1.ts'
import { dataKey } from '../ports/key.ts'
import { runtimeOf } from '../stampede.ts'
import { ManualClock, settled, Transcript } from '../testing/index.ts'
import { FaultyStore } from '../testing/store-doubles.ts'

let open: Stampede[] = []
afterEach(async () => {
  await Promise.all(open.map((stampede) => stampede.close()))
  open = []
})

function setUp(options: StampedeOptions = {}) {
  const clock = new ManualClock()
  const store = options.store ?? memoryStore()
  const commit = vi.spyOn(store, 'commit')
  const stampede = createStampede({ clock, random: () => 0, ...options, store })
  open.push(stampede)
  const transcript = new Transcript().record(stampede)
  const get = (key: string, value: unknown, more = {}) =>
    stampede.getOrSet(key, () => value, { ttlMs: 1_000, ...more })
  return { clock, store, commit, stampede, transcript, get, rt: runtimeOf(stampede) }
}

describe('an entry of a Stampede on a memory store', () => {
  it("is never encoded, and comes from the store's own memory", async () => {
    const { store, commit, get, stampede, transcript, rt } = setUp()
    await get('k', { price: 5 })
    transcript.take()
    expect(await get('k', 'other')).toEqual({ price: 5 })
    expect(transcript.take()).toEqual(['hit l1'])
    expect(commit).not.toHaveBeenCalled()
    expect(rt.l1.get(dataKey('k'))).toBe(rt.local?.items.get(dataKey('k')))
    expect(stampede.stats().l1).toMatchObject((store as unknown as { size: object }).size)
  })

  const MIB = 1024 * 1024
  it.each([
    ['neither limit', undefined, undefined, 64 * MIB],
    ['l1.maxBytes', { maxBytes: 100_000 }, undefined, 100_000],
    ['a larger l1.maxBytes', { maxBytes: 256 * MIB }, undefined, 256 * MIB],
    ['the limit of the store', undefined, { maxBytes: 100_000 }, 100_000],
    ['a larger limit of the store', undefined, { maxBytes: 256 * MIB }, 256 * MIB],
    ['both, l1 the smaller', { maxBytes: 100_000 }, { maxBytes: MIB }, 100_000],
    ['both, the store the smaller', { maxBytes: MIB }, { maxBytes: 100_000 }, 100_000],
    ['an l1.maxBytes without room for a lease', { maxBytes: 1 }, undefined, 1_024],
  ])('is kept within maxBytes with %s', async (_what, l1, ofStore, expected) => {
    const { get, stampede, store } = setUp({ ...(l1 && { l1 }), store: memoryStore(ofStore) })
    expect(stampede.stats().l1.maxBytes).toBe(expected)
    expect((await store.operator.info()).maxMemoryBytes).toBe(expected)
    for (let i = 0; i < 20; i++) await get(`${i}`, 'a'.repeat(10_000))
    expect(stampede.stats().l1.bytes).toBeLessThanOrEqual(expected)
    if (expected > 10_000) expect(stampede.stats().l1.entries).toBe(expected < MIB ? 9 : 20)
  })

  it('is bounded by l1 without an option store', () => {
    const stampede = createStampede({ l1: { maxBytes: 5 * MIB } })
    open.push(stampede)
    expect(stampede.stats().l1.maxBytes).toBe(5 * MIB)
  })

  it('is kept within l1.maxEntries, the most recently used ones, without losing a fill', async () => {
    const { get, stampede, transcript } = setUp({ l1: { maxEntries: 3 } })
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

  it('is not kept if it is larger than l1.maxEntryBytes, and does not evict others', async () => {
    const { get, transcript } = setUp({ l1: { maxEntryBytes: 5_000 } })
    await get('small', 'a')
    await get('large', 'a'.repeat(10_000))
    await settled()
    transcript.take()
    expect(await get('small', 'other')).toBe('a')
    expect(transcript.take()).toEqual(['hit l1'])
    const again = await get('large', 'other')
    expect([transcript.take(), again === 'other']).toEqual([
      ['lease.granted', 'fill.started', 'fill.committed'],
      true,
    ])
  })

  it.each([
    ['L1 is off', { l1: { maxBytes: 0 } }, 'hit l2'],
    ['the store is wrapped in one that only accepts bytes', { store: new FaultyStore() }, 'hit l1'],
  ])('is a frame if %s', async (_when, options, hit) => {
    const { commit, get, transcript } = setUp(options)
    await get('k', 'v')
    await settled()
    expect(commit.mock.calls.map(([, frame]) => frame instanceof Uint8Array)).toEqual([true])
    transcript.take()
    expect(await get('k', 'other')).toBe('v')
    expect(transcript.take()).toEqual([hit])
  })

  it('is stale at once after a soft purge, also for waiters that look it up', async () => {
    const { get, stampede, clock } = setUp()
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

  it('is gone after a hard purge', async () => {
    const { get, stampede, rt } = setUp()
    await get('k', 'old')
    await stampede.purge({ key: 'k' })
    expect(rt.l1.get(dataKey('k'))).toBeUndefined()
    expect(await get('k', 'new')).toBe('new')
  })
})

describe('the L1 on a memory store', () => {
  it('has no entry or hit-for-miss marker that the store lacks', async () => {
    const { get, rt, clock } = setUp()
    await get('k', 'v')
    const key = dataKey('k')
    const kept = rt.l1.get(key)
    const entry = { type: 'value', encoding: 'bytes', body: Buffer.alloc(1) } as const
    const lives = { freshMs: 9e3, staleWhileRevalidateMs: 0, staleIfErrorMs: 0, keepMs: 0 }
    const other = heldEntry(
      { ...entry, provenance: UNKNOWN_PROVENANCE },
      '',
      { ...lives, physicalMs: 9e3 },
      0,
    )
    for (const slot of [newCopy(other), newMarker(clock.now(), 9_000)]) {
      rt.l1.put(key, slot, rt.l1.sequence())
      rt.l1.put('unknown', slot, rt.l1.sequence())
      expect(rt.l1.get(key)).toBe(kept)
      expect(rt.l1.get('unknown')).toBeUndefined()
    }
  })
})
