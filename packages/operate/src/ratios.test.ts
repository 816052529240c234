import { expect, it } from 'vitest'
import { ratiosOf, runsOn } from './ratios.ts'

it('counts requests that wait for one run as misses that are saved from the origin', () => {
  const runs = runsOn({ '/a': { runs: 1 }, '/b': {} })
  expect(ratiosOf({ hits: 0, misses: 100, runs })).toEqual({ hitRatio: 0, saved: 0.99 })
})

it('saves nothing if runs in the background outnumber the requests', () => {
  expect(ratiosOf({ hits: 1, misses: 1, runs: 3 })).toEqual({ hitRatio: 0.5, saved: 0 })
})

it('has no ratios without a request', () => {
  expect(ratiosOf({ hits: 0, misses: 0, runs: 0 })).toEqual({})
})
