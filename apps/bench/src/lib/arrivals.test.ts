import { describe, expect, it } from 'vitest'
import { scenarios } from '../compare/scenarios.ts'
import { poisson, seeded, zipf } from './arrivals.ts'

describe('arrivals', () => {
  it.each(scenarios)(
    'are in order, and the same for the same seed, in "$title"',
    ({ arrivals }) => {
      const [first, again, other] = [1, 1, 2].map((seed) => arrivals(seeded(seed)))
      expect(first).toEqual(again)
      expect(first).not.toEqual(other)
      const times = first?.map(({ atMs }) => atMs)
      expect(times).toEqual(times?.toSorted((a, b) => a - b))
    },
  )

  it('have the given rate, and the gaps of a Poisson process', () => {
    const times = poisson(seeded(7), { fromMs: 100, forMs: 10_000, perSecond: 1_000 }, String)
    expect(times.length).toBeGreaterThan(9_700)
    expect(times.length).toBeLessThan(10_300)
    const gaps = times.slice(1).map(({ atMs }, n) => atMs - (times[n]?.atMs ?? 0))
    // Gaps are exponential: 1 − 1/e of them are below the mean.
    const below = gaps.filter((gap) => gap < 1).length / gaps.length
    expect(below).toBeCloseTo(1 - 1 / Math.E, 1)
  })

  it('ask for the first key of a Zipf distribution ten times as often as for the tenth', () => {
    const rank = zipf(seeded(3), 100)
    const counts = new Array<number>(100).fill(0)
    for (let i = 0; i < 100_000; i++) {
      const at = rank()
      counts[at] = (counts[at] ?? 0) + 1
    }
    const [first = 0, tenth = 1] = [counts[0], counts[9]]
    expect(first / tenth).toBeGreaterThan(8)
    expect(first / tenth).toBeLessThan(12)
  })
})
