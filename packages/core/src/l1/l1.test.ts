import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type HeldEntry, NO_WINDOWS, type StoredEntry, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { isNewer, L1, type L1Item, type L1Limits, newCopy, newMarker } from './l1.ts'

const LIMITS = { maxBytes: 100_000, maxEntries: 100, maxEntryBytes: 50_000 }

const create = (limits: L1Limits) => new L1(limits, { now: () => 0 })

const value = (bytes: number): StoredEntry => ({
  type: 'value',
  encoding: 'bytes',
  body: Buffer.alloc(bytes),
  provenance: UNKNOWN_PROVENANCE,
})
function hold(fence: string, entry: StoredEntry = value(10)): L1Item {
  const held: HeldEntry = {
    entry,
    fence,
    bornAt: 0,
    staleAt: 1_000,
    revalidateUntil: 1_000,
    windows: NO_WINDOWS,
  }
  return newCopy(held)
}
const fenceIn = (l1: L1, key = 'k') => {
  const slot = l1.get(key)
  return slot?.type === 'copy' ? slot.held.fence : slot?.type
}

describe('a write to L1', () => {
  it('can be read', () => {
    const l1 = create(LIMITS)
    const slot = hold('5')
    expect(l1.put('k', slot, l1.sequence)).toBe(true)
    expect(l1.get('k')).toBe(slot)
  })

  it('is refused if it began before a purge of its key', () => {
    const l1 = create(LIMITS)
    const since = l1.sequence
    l1.purge('k')
    expect(l1.put('k', hold('5'), since)).toBe(false)
    expect(l1.put('k', newMarker(0, 9), since)).toBe(false)
    expect(l1.get('k')).toBeUndefined()
  })

  it('is accepted if it began after the purge of its key, or before one of another key', () => {
    const l1 = create(LIMITS)
    l1.purge('k')
    const since = l1.sequence
    l1.purge('other')
    expect(l1.put('k', hold('5'), since)).toBe(true)
  })

  it('is refused if it began before L1 was emptied', () => {
    const l1 = create(LIMITS)
    const since = l1.sequence
    l1.flush()
    expect(l1.put('k', hold('5'), since)).toBe(false)
    expect(l1.put('k', hold('5'), l1.sequence)).toBe(true)
  })

  it.each([
    ['too long to remember', [3 * 1024 * 1024]],
    ['one of those that are too long together', [1024 * 1024, 1024 * 1024, 1024 * 1024]],
  ])('is refused if the purge of its key is %s', (_, lengths) => {
    const l1 = create(LIMITS)
    const since = l1.sequence
    const keys = lengths.map((length, i) => `${i}`.padEnd(length, 'k'))
    for (const key of keys) l1.purge(key)
    for (const key of keys) expect(l1.put(key, hold('5'), since)).toBe(false)
    expect(l1.put('k', hold('5'), l1.sequence)).toBe(true)
  })

  it('is refused if its key is one of too many purged keys to remember', () => {
    const l1 = create(LIMITS)
    const since = l1.sequence
    l1.purge('k')
    for (let i = 0; i < 10_000; i++) l1.purge(`other ${i}`)
    expect(l1.put('k', hold('5'), since)).toBe(false)
    expect(l1.put('k', hold('5'), l1.sequence)).toBe(true)
  })

  it('is refused with an older fence, and accepted with the same or a newer one', () => {
    const l1 = create(LIMITS)
    const put = (fence: string) => l1.put('k', hold(fence), l1.sequence)
    expect([put('10'), put('9'), put('10'), put('11'), put('10')]).toEqual([
      true,
      false,
      true,
      true,
      false,
    ])
    expect(fenceIn(l1)).toBe('11')
  })

  it('is accepted with an older fence if the newer entry is stale, because the store may have lost data', () => {
    let now = 0
    const l1 = new L1(LIMITS, { now: () => now })
    l1.put('k', hold('7'), l1.sequence)
    now = 999
    expect(l1.put('k', hold('6'), l1.sequence)).toBe(false)
    now = 1_000
    expect(l1.put('k', hold('6'), l1.sequence)).toBe(true)
    expect(fenceIn(l1)).toBe('6')
  })

  it('stores a variant where a purge of its vary group finds it', () => {
    const l1 = create(LIMITS)
    l1.put('k\0de', hold('5'), l1.sequence)
    expect(fenceIn(l1, 'k\0de')).toBe('5')
    l1.purge('k')
    expect(l1.get('k\0de')).toBeUndefined()
  })

  it('replaces an entry with a hit-for-miss marker, and a marker with an entry', () => {
    const l1 = create(LIMITS)
    l1.put('k', hold('10'), l1.sequence)
    expect(l1.put('k', newMarker(0, 9), l1.sequence)).toBe(true)
    expect(fenceIn(l1)).toBe('marker')
    expect(l1.put('k', hold('1'), l1.sequence)).toBe(true)
    expect(fenceIn(l1)).toBe('1')
  })
})

describe('a limit of L1', () => {
  it('drops the least recently used entries beyond its number of bytes', () => {
    const l1 = create({ ...LIMITS, maxBytes: 5_000 })
    for (const key of ['a', 'b', 'c', 'd']) l1.put(key, hold('1', value(1_000)), l1.sequence)
    expect(l1.size.bytes).toBeLessThanOrEqual(5_000)
    expect(fenceIn(l1, 'a')).toBeUndefined()
    expect(fenceIn(l1, 'd')).toBe('1')
  })

  it('drops the least recently used entries beyond its number of entries', () => {
    const l1 = create({ ...LIMITS, maxEntries: 2 })
    l1.put('a', hold('1'), l1.sequence)
    l1.put('b', hold('1'), l1.sequence)
    l1.get('a')
    l1.put('c', hold('1'), l1.sequence)
    expect([fenceIn(l1, 'a'), fenceIn(l1, 'b'), fenceIn(l1, 'c')]).toEqual(['1', undefined, '1'])
  })

  it('excludes an entry that is too large, and drops the older entry of the same key', () => {
    const l1 = create({ ...LIMITS, maxEntryBytes: 1_000 })
    l1.put('k', hold('1'), l1.sequence)
    expect(() => l1.put('k', hold('2', value(1_000)), l1.sequence)).not.toThrow()
    expect(l1.get('k')).toBeUndefined()
    expect(l1.size).toEqual({ entries: 0, bytes: 0 })
  })

  it.each([{ maxBytes: 0 }, { maxEntries: 0 }])('switches L1 off if it is %j', (none) => {
    const l1 = create({ ...LIMITS, ...none })
    expect(l1.put('k', hold('1'), l1.sequence)).toBe(true)
    expect(l1.get('k')).toBeUndefined()
    expect(l1.size).toEqual({ entries: 0, bytes: 0 })
  })

  it.each([
    ['the key', 'k'.repeat(1_000), value(0), 1_000],
    ['characters that take two bytes', '√'.repeat(1_000), value(0), 2_000],
    ['the body', 'k', value(1_000), 1_000],
    [
      'the headers',
      'k',
      {
        type: 'response',
        status: 200,
        fields: ['x-a', 'v'.repeat(1_000)],
        body: Buffer.alloc(0),
        initialAgeMs: 0,
        provenance: UNKNOWN_PROVENANCE,
        vary: [],
      },
      1_000,
    ],
    [
      'the request headers it was chosen by',
      'k',
      {
        type: 'response',
        status: 200,
        fields: [],
        body: Buffer.alloc(0),
        initialAgeMs: 0,
        provenance: UNKNOWN_PROVENANCE,
        vary: [['accept-language', 'v'.repeat(1_000)]],
      },
      1_000,
    ],
  ] as Array<[string, string, StoredEntry, number]>)('counts %s', (_, key, entry, least) => {
    const l1 = create(LIMITS)
    l1.put(key, hold('1', entry), l1.sequence)
    expect(l1.size.bytes).toBeGreaterThan(least)
    expect(l1.size.bytes).toBeLessThan(least + 1_100)
  })

  it('may be as large as the options allow', () => {
    const most = { maxBytes: 2 ** 40, maxEntries: 1_000_000, maxEntryBytes: 2 ** 40 }
    expect(create(most).size).toEqual({ entries: 0, bytes: 0 })
  })
})

describe('the comparison of fences', () => {
  it('treats the greater number as newer', () => {
    const fence = fc.bigInt({ min: 0n, max: 2n ** 70n })
    fc.assert(
      fc.property(fence, fence, (a, b) => {
        expect(isNewer(String(a), String(b))).toBe(a > b)
      }),
    )
  })

  it('treats an empty fence as the oldest', () => {
    expect(isNewer('', '0')).toBe(false)
    expect(isNewer('0', '')).toBe(true)
    expect(isNewer('', '')).toBe(false)
  })
})
