import { describe, expect, it } from 'vitest'
import { kindOf, summarise } from './fire.ts'

describe('kindOf', () => {
  it.each([
    ['Stampede; hit; ttl=9', 'hit'],
    ['Stampede; hit; ttl=-3', 'hit (stale)'],
    ['Stampede; fwd=uri-miss; fwd-status=200; stored', 'fwd=uri-miss; stored'],
    ['Stampede; fwd=uri-miss; fwd-status=200; collapsed', 'fwd=uri-miss; collapsed'],
    [
      'Stampede; fwd=uri-miss; fwd-status=404; detail=status',
      'fwd=uri-miss; fwd-status=404; detail=status',
    ],
    ['Stampede', 'none'],
    [undefined, 'none'],
  ])('counts %s as %s', (field, kind) => {
    expect(kindOf(field)).toBe(kind)
  })
})

describe('summarise', () => {
  const shot = (elapsedMs: number) => ({ status: '200', cacheStatus: 'hit', elapsedMs })

  it('takes percentiles by nearest rank, in any order of the values', () => {
    const shots = Array.from({ length: 200 }, (_, i) => shot(200 - i))
    expect(summarise(shots)).toMatchObject({ requests: 200, p50Ms: 100, p99Ms: 198, maxMs: 200 })
    expect(summarise([shot(7.04)])).toMatchObject({ p50Ms: 7, p99Ms: 7, maxMs: 7 })
  })

  it('counts statuses and kinds, the most frequent first', () => {
    const shots = [shot(1), { status: 'none', cacheStatus: 'none', elapsedMs: 2 }, shot(3)]
    const { statuses, cacheStatus } = summarise(shots)
    expect(statuses).toEqual({ 200: 2, none: 1 })
    expect(Object.keys(cacheStatus)).toEqual(['hit', 'none'])
  })
})
