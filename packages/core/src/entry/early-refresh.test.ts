import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { startsEarlyRefresh } from './early-refresh.ts'

const DRAWS = 40_000

/** Random numbers from [0, 1) that are the same in every run of the test (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function share(remainingMs: number, tookMs: number, beta: number): number {
  const random = seeded(7)
  let drawn = 0
  for (let i = 0; i < DRAWS; i++)
    if (startsEarlyRefresh(remainingMs, tookMs, beta, random)) drawn += 1
  return drawn / DRAWS
}

describe('a random early refresh', () => {
  it.each([
    [100, 100, 1],
    [300, 100, 1],
    [50, 100, 1],
    [500, 100, 2.5],
    [200, 100, 0.5],
    [1, 100, 1],
  ])(
    'has the published probability %d ms before the end, for a run of %d ms and β = %d',
    (remaining, took, beta) => {
      const expected = Math.exp(-remaining / (took * beta))
      // The measured rate may differ from the expected one by four standard deviations.
      const tolerance = 4 * Math.sqrt((expected * (1 - expected)) / DRAWS)
      expect(Math.abs(share(remaining, took, beta) - expected)).toBeLessThan(tolerance)
    },
  )

  it('is more likely near the end, for a slow origin and for a great β', () => {
    const by = (shares: number[]) => shares.map((each, i) => each > (shares[i - 1] ?? -1))
    expect(by([400, 200, 100, 50].map((remaining) => share(remaining, 100, 1)))).not.toContain(
      false,
    )
    expect(by([50, 100, 200, 400].map((took) => share(200, took, 1)))).not.toContain(false)
    expect(by([0.5, 1, 2, 4].map((beta) => share(200, 100, beta)))).not.toContain(false)
  })

  it('also starts later, after a slower run, and for a greater β with the same random number', () => {
    const ms = fc.double({ min: 0.1, max: 100_000, noNaN: true })
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    const more = fc.double({ min: 1, max: 10, noNaN: true })
    fc.assert(
      fc.property(ms, ms, chance, more, (remaining, took, number, times) => {
        const random = () => number
        fc.pre(startsEarlyRefresh(remaining, took, 1, random))
        expect(startsEarlyRefresh(remaining / times, took, 1, random)).toBe(true)
        expect(startsEarlyRefresh(remaining, took * times, 1, random)).toBe(true)
        expect(startsEarlyRefresh(remaining, took, times, random)).toBe(true)
      }),
    )
  })

  it('never happens for a run without duration, or if the option is off', () => {
    const random = seeded(1)
    for (let i = 0; i < 1_000; i++) {
      expect(startsEarlyRefresh(1, 0, 1, random)).toBe(false)
      expect(startsEarlyRefresh(1, 1_000, 0, random)).toBe(false)
    }
  })

  it('draws no random number if no number could start a refresh', () => {
    const smallest = () => 1 - 2 ** -53
    expect(startsEarlyRefresh(3_673, 100, 1, smallest)).toBe(true)
    expect(startsEarlyRefresh(3_675, 100, 1, smallest)).toBe(false)
    expect(
      startsEarlyRefresh(3_681, 100, 1, () => {
        throw new Error('drawn')
      }),
    ).toBe(false)
  })
})
