import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { onPurge } from '../engine/messages.ts'
import {
  type HeldEntry,
  NO_WINDOWS,
  type StoredResponse,
  UNKNOWN_PROVENANCE,
} from '../entry/entry.ts'
import type { Runtime } from '../runtime.ts'
import { createStampede, runtimeOf, type Stampede } from '../stampede.ts'
import { ManualClock } from '../testing/index.ts'
import { VaryIndex } from './vary-index.ts'

const found = (vary: StoredResponse['vary']): HeldEntry => ({
  entry: {
    type: 'response',
    status: 200,
    fields: [],
    body: Buffer.alloc(0),
    initialAgeMs: 0,
    vary,
    provenance: { ...UNKNOWN_PROVENANCE, subjects: ['tag:a'], asOf: 1 },
  },
  fence: '1',
  bornAt: 0,
  staleAt: 1_000,
  revalidateUntil: 2_500,
  windows: { ...NO_WINDOWS, staleWhileRevalidateMs: 1_500 },
})

let clock: ManualClock
let stampede: Stampede
let rt: Runtime
beforeEach(() => {
  clock = new ManualClock()
  stampede = createStampede({ clock })
  rt = runtimeOf(stampede)
})
afterEach(() => stampede.close())

const GERMAN = found([['accept-language', 'de']])

describe('the learned Vary of a URL', () => {
  it('is empty until a request differs in a Vary field of the stored entry', () => {
    const index = new VaryIndex()
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual([])
  })

  it('is in the key of every request, except of those that match the first response', () => {
    const index = new VaryIndex()
    index.learn(rt, 'k', [], GERMAN)
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual([])
    expect(index.namesFor('k', { 'accept-language': 'fr' })).toEqual(['accept-language'])
    expect(index.namesFor('k', {})).toEqual(['accept-language'])
    expect(index.namesFor('other', { 'accept-language': 'fr' })).toEqual([])
  })

  it('distinguishes an absent header from an empty one', () => {
    const index = new VaryIndex()
    index.learn(rt, 'k', [], found([['x-a', null]]))
    expect(index.namesFor('k', {})).toEqual([])
    expect(index.namesFor('k', { 'x-a': '' })).toEqual(['x-a'])
  })

  it('grows if a response has another Vary than the responses before', () => {
    const index = new VaryIndex()
    index.learn(rt, 'k', [], GERMAN)
    index.learn(rt, 'k', ['accept-language'], found([['x-theme', 'dark']]))
    const names = index.namesFor('k', { 'accept-language': 'fr' })
    expect(names).toEqual(['accept-language', 'x-theme'])
  })

  it('is replaced when the first response is replaced', () => {
    const index = new VaryIndex()
    index.learn(rt, 'k', [], GERMAN)
    index.learn(rt, 'k', [], found([['accept-language', 'fr']]))
    expect(index.namesFor('k', { 'accept-language': 'fr' })).toEqual([])
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual(['accept-language'])
  })
})

describe('a URL whose first response is gone', () => {
  const french = { 'accept-language': 'fr' }
  const known = () => {
    const index = new VaryIndex()
    index.learn(rt, 'k', [], GERMAN)
    index.learn(rt, 'other', [], GERMAN)
    return index
  }
  it.each<[string, () => unknown]>([
    ['expired', () => clock.advance(2_500)],
    ['was purged by its key', () => onPurge(rt, 'k', false)],
    ['may have been purged', () => rt.l1.flush()],
  ])('is outdated because it %s', async (_, end) => {
    const index = known()
    expect(index.isOutdated(rt, 'k')).toBe(false)
    await end()
    expect(index.namesFor('k', french)).toEqual(['accept-language'])
    expect(index.isOutdated(rt, 'k')).toBe(true)
    expect(index.namesFor('k', french)).toEqual([])
    expect(index.formerNames('k')).toEqual(['accept-language'])
    index.learn(rt, 'k', [], { ...GERMAN, revalidateUntil: clock.now() + 1_000 })
    expect(index.namesFor('k', french)).toEqual(['accept-language'])
    expect(index.formerNames('k')).toEqual([])
  })
})

describe('the number of variants', () => {
  it('has no limit, so made-up values evict no other variant', () => {
    const index = new VaryIndex()
    index.learn(rt, 'k', [], GERMAN)
    for (let i = 0; i < 1_000; i++) {
      expect(index.namesFor('k', { 'accept-language': `x-${i}` })).toEqual(['accept-language'])
    }
    expect(index.namesFor('k', { 'accept-language': 'de' })).toEqual([])
  })
})

describe('the number of URLs', () => {
  it('has a limit, and a forgotten URL is learned again', () => {
    const index = new VaryIndex()
    for (let i = 0; i <= 10_000; i++) index.learn(rt, `k${i}`, [], GERMAN)
    expect(index.namesFor('k0', {})).toEqual([])
    expect(index.namesFor('k1', {})).toEqual(['accept-language'])
  })
})

describe('the memory of a URL', () => {
  const chosen = (index: VaryIndex, url: string, language: string) =>
    index.namesFor(url, { 'accept-language': language })

  it('is as small for long URLs as for short ones', () => {
    const index = new VaryIndex()
    const long = 'k'.repeat(16_000)
    index.learn(rt, long, [], GERMAN)
    expect(chosen(index, long, 'fr')).toEqual(['accept-language'])
    expect(chosen(index, long, 'de')).toEqual([])
    expect(chosen(index, `${long}k`, 'fr')).toEqual([])
  })
})
