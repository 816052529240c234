import { describe, expect, it } from 'vitest'
import { ratiosOf, usageOf } from './ratios.ts'
import { createStampede } from './stampede.ts'
import { ManualClock } from './testing/manual-clock.ts'

it('counts requests that wait for one run as misses that are saved from the origin', () => {
  const routes = { '/a': { runs: 1 }, '/b': {} }
  const usage = usageOf({ hits: { l1: 0, l2: 0 }, misses: 100, stale: {}, routes })
  expect(ratiosOf(usage)).toEqual({ hitRatio: 0, saved: 0.99 })
})

it('saves nothing if runs in the background outnumber the requests', () => {
  expect(ratiosOf({ hits: 1, misses: 1, runs: 3 })).toEqual({ hitRatio: 0.5, saved: 0 })
})

it('has no ratios without a request', () => {
  expect(ratiosOf({ hits: 0, misses: 0, runs: 0 })).toEqual({})
})

describe('stats().ratios of 100 calls', () => {
  const LIFE = { ttlMs: 1_000, staleWhileRevalidateMs: 0, staleIfErrorMs: 0 }

  /** `before`: whether an expired entry is there. The run of the calls ends after them. */
  it.each<[what: string, expected: object, options: object, before: boolean, fails?: boolean]>([
    ['that wait for one run', { hitRatio: 0, saved: 0.99 }, {}, false],
    ['that share one failure', { hitRatio: 0, saved: 0.99 }, {}, false, true],
    [
      'that get a stale value',
      { hitRatio: 100 / 101, saved: 99 / 101 },
      { staleWhileRevalidateMs: 60_000 },
      true,
    ],
    [
      'that get a stale value instead of an error',
      { hitRatio: 100 / 101, saved: 99 / 101 },
      { staleIfErrorMs: 60_000 },
      true,
      true,
    ],
  ])('%s are also those of the Grafana dashboard', async (_, expected, options, before, fails) => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const life = { ...LIFE, ...options, jitter: 0 }
    if (before) await stampede.getOrSet('a:1', () => 1, life)
    await clock.advance(1_001)
    let open = (): void => {}
    const opened = new Promise<void>((resolve) => (open = resolve))
    const calls = Array.from({ length: 100 }, () =>
      stampede.getOrSet('a:1', () => opened.then(() => (fails ? fail() : 2)), life),
    )
    open()
    await Promise.allSettled(calls)
    // The run in the background ends after the calls.
    await new Promise((resolve) => setImmediate(resolve))
    const { ratios, routes } = stampede.stats()
    expect(ratios).toEqual(expected)
    const { hits = 0, stale = 0, misses = 0, runs = 0 } = routes.a ?? {}
    const used = hits + stale + misses
    expect(ratios).toEqual({ hitRatio: (hits + stale) / used, saved: 1 - runs / used })
  })
})

function fail(): never {
  throw new Error('the origin is down')
}
