import { describe, expect, it } from 'vitest'
import { medianOf, quantile, ratios, spreadOf } from './statistics.ts'

describe('figures of several rounds', () => {
  it('have a median, a minimum and a maximum', () => {
    expect(spreadOf([30, 10, 20])).toEqual({ median: 20, min: 10, max: 30 })
    expect(medianOf([1, 4, 2, 3])).toBe(2.5)
  })

  it('are divided within each round', () => {
    expect(ratios([10, 30], [20, 10])).toEqual([0.5, 3])
  })

  it('have percentiles by nearest rank', () => {
    const sorted = Array.from({ length: 1_000 }, (_, n) => n + 1)
    expect(quantile(sorted, 0.99)).toBe(990)
    expect(quantile(sorted, 0.999)).toBe(999)
    expect(quantile([7], 0.999)).toBe(7)
  })
})
