import { describe, expect, it } from 'vitest'
import { freshnessAt, type HeldEntry, UNKNOWN_PROVENANCE } from './entry.ts'

const held: HeldEntry = {
  entry: {
    type: 'value',
    encoding: 'json',
    body: Buffer.from('1'),
    provenance: UNKNOWN_PROVENANCE,
  },
  fence: '1',
  bornAt: 0,
  staleAt: 100,
  revalidateUntil: 150,
  errorUntil: 200,
  keepUntil: 200,
}

describe('an entry', () => {
  it.each([
    [99, 'fresh'],
    [100, 'stale'],
    [149, 'stale'],
    [150, 'stale-if-error'],
    [199, 'stale-if-error'],
    [200, 'expired'],
  ] as const)('at %d ms is %s', (now, freshness) => expect(freshnessAt(held, now)).toBe(freshness))

  it('is either fresh or expired if it has no stale windows', () => {
    const short = { ...held, revalidateUntil: 100, errorUntil: 100 }
    expect(freshnessAt(short, 99)).toBe('fresh')
    expect(freshnessAt(short, 100)).toBe('expired')
  })

  it('may be served longer while it is refreshed than after an error', () => {
    expect(freshnessAt({ ...held, errorUntil: 120 }, 140)).toBe('stale')
  })
})
