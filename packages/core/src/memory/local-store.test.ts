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

  it('is limited by the bounds of the store, not by those of L1', async () => {
    const l1 = { maxEntries: 1, maxEntryBytes: 1 }
    const { get, transcript } = setUp({ l1, store: memoryStore({ maxBytes: 100_000 }) })
    await get('a', 'a'.repeat(30_000))
    await get('b', 'b')
    transcript.take()
    await get('a', 'other')
    await get('b', 'other')
    expect(transcript.take()).toEqual(['hit l1', 'hit l1'])
    for (const key of ['c', 'd', 'e']) await get(key, key.repeat(30_000))
    transcript.take()
    await get('a', 'made again')
    expect(transcript.take()).toEqual(['lease.granted', 'fill.started', 'fill.committed'])
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
