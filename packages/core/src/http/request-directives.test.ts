import { describe, expect, it } from 'vitest'
import {
  isAcceptable,
  isAcceptableOnError,
  requestDirectives,
  type StoredAge,
} from './request-directives.ts'

const said = (cacheControl: string) => requestDirectives({ 'cache-control': cacheControl })

describe('parsed request directives', () => {
  it('are empty without a known directive', () => {
    expect(requestDirectives({})).toBeUndefined()
    expect(said('')).toBeUndefined()
    expect(said('no-transform, x=1, public')).toBeUndefined()
    expect(said('max-age=x, min-fresh, stale-if-error=-1, max-stale=soon')).toBeUndefined()
  })

  it('are found with any letter case, space and quotes', () => {
    const all =
      'No-Cache, NO-STORE,only-if-cached , max-age="1", min-fresh=2, max-stale=3, stale-if-error=4'
    expect(said(all)).toEqual({
      noCache: true,
      noStore: true,
      onlyIfCached: true,
      maxAgeS: 1,
      minFreshS: 2,
      maxStaleS: 3,
      staleIfErrorS: 4,
    })
  })

  it('are the stricter one of two with the same name', () => {
    expect(said('max-age=9, max-age=5, min-fresh=3, min-fresh=4')).toMatchObject({
      maxAgeS: 5,
      minFreshS: 4,
    })
    expect(said('max-stale, max-stale=7')).toMatchObject({ maxStaleS: 7 })
    expect(said('max-stale=7, max-stale')).toMatchObject({ maxStaleS: 7 })
    expect(said('max-stale')).toMatchObject({ maxStaleS: Number.POSITIVE_INFINITY })
  })

  it('may come from Pragma, if there is no Cache-Control', () => {
    expect(requestDirectives({ pragma: 'No-Cache' })).toMatchObject({ noCache: true })
    expect(requestDirectives({ pragma: 'x, no-cache' })).toMatchObject({ noCache: true })
    expect(requestDirectives({ pragma: 'no-store' })).toBeUndefined()
    expect(requestDirectives({ pragma: 'no-cache', 'cache-control': '' })).toBeUndefined()
    expect(requestDirectives({ pragma: 'no-cache', 'cache-control': 'max-age=5' })).toMatchObject({
      noCache: false,
    })
  })
})

const fresh = (ageS: number, leftS: number): StoredAge => ({
  ageMs: ageS * 1000,
  freshForMs: leftS * 1000,
})
const stale = (byS: number): StoredAge => fresh(60, -byS)

describe('a stored response', () => {
  it('is allowed by a request without directives, fresh or stale', () => {
    expect(isAcceptable(undefined, fresh(5, 5))).toBe(true)
    expect(isAcceptable(undefined, stale(5))).toBe(true)
    expect(isAcceptableOnError(undefined, stale(5))).toBe(true)
  })

  it.each<[string, StoredAge, boolean]>([
    ['no-cache', fresh(0, 60), false],
    ['no-store', fresh(5, 60), true],
    ['max-age=5', fresh(5, 60), true],
    ['max-age=5', fresh(5.001, 60), false],
    ['max-age=0', fresh(0, 60), true],
    ['max-age=0', fresh(0.1, 60), false],
    ['min-fresh=5', fresh(0, 5), true],
    ['min-fresh=5', fresh(0, 4.9), false],
    ['max-age=600', stale(5), false],
    ['min-fresh=0', stale(0), false],
    ['max-age=600, max-stale=5', stale(5), true],
    ['max-age=600, max-stale=5', stale(5.1), false],
    ['max-age=600, max-stale', stale(500), true],
    ['max-age=6, max-stale', stale(5), false],
    ['max-stale=5', stale(5), true],
    ['max-stale=5', stale(6), false],
    ['max-stale', stale(500), true],
    ['stale-if-error=5', stale(6), true],
  ])('is allowed with %s, for %j: %s', (text, offer, expected) =>
    expect(isAcceptable(said(text), offer)).toBe(expected),
  )

  it.each<[string, StoredAge, boolean]>([
    ['stale-if-error=5', stale(5), true],
    ['stale-if-error=5', stale(6), false],
    ['no-cache, stale-if-error=5', stale(5), true],
    ['max-age=0, stale-if-error=5', stale(5), true],
    ['max-age=0', stale(5), false],
    ['no-cache', stale(5), false],
    ['max-stale=9', stale(5), true],
  ])('may replace an error: request %s, stored response %j: %s', (text, offer, expected) =>
    expect(isAcceptableOnError(said(text), offer)).toBe(expected),
  )
})
