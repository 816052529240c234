import { describe, expect, it } from 'vitest'
import { rowOf, type Seen } from './run-open.ts'

describe('a row of the fleets under load', () => {
  const round = (latenciesMs: readonly number[], failed = 0): Seen => {
    return { peer: 'a', scenario: 'zipf', latenciesMs, failed, originCalls: 7 }
  }
  const calm = [1, 2, 3, 4]

  it('does not let one disturbed round decide a percentile', () => {
    const seen = [round([100, 200, 300, 400]), round(calm), round(calm)]
    const { p50, p99, p999, requests } = rowOf({ id: 'a', name: 'A' }, 'zipf', seen)
    expect({ p50, p99, p999, requests }).toEqual({ p50: 2.5, p99: 4, p999: 4, requests: 4 })
  })

  it('has the share of failed requests of all rounds, and leaves out other caches', () => {
    const seen = [round(calm, 2), round(calm), { ...round(calm, 4), peer: 'b' }]
    const row = rowOf({ id: 'a', name: 'A' }, 'zipf', seen)
    expect(row.failed).toBe(0.25)
    expect(row.rounds).toHaveLength(2)
  })
})
