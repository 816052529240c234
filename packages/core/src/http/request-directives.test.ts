import { describe, expect, it } from 'vitest'
import {
  isAcceptable,
  isAcceptableOnError,
  NO_DIRECTIVES,
  requestDirectives,
  type StoredAge,
} from './freshness.ts'
import type { RequestHeaders } from './headers.ts'

const said = (cacheControl: string) => requestDirectives({ 'cache-control': cacheControl })
const all = (headers: RequestHeaders) => Object.fromEntries(requestDirectives(headers))
const directives = (cacheControl: string) => all({ 'cache-control': cacheControl })
const YES = Number.POSITIVE_INFINITY

describe('parsed request directives', () => {
  it('are empty without a directive or a valid number', () => {
    expect(all({})).toEqual({})
    expect(directives('')).toEqual({})
    expect(directives('no-transform, public')).toEqual({})
    expect(directives('max-age=x, min-fresh, stale-if-error=-1, max-stale=soon')).toEqual({})
  })

  it('are found with any letter case, space and quotes', () => {
    const text =
      'No-Cache, NO-STORE,only-if-cached , max-age="1", min-fresh=2, max-stale=3, stale-if-error=4'
    expect(directives(text)).toEqual({
      ...{ 'no-cache': YES, 'no-store': YES, 'only-if-cached': YES },
      ...{ 'max-age': 1, 'min-fresh': 2, 'max-stale': 3, 'stale-if-error': 4 },
    })
  })

  it('are the stricter one of two with the same name', () => {
    const text = 'max-age=9, max-age=5, min-fresh=3, min-fresh=4'
    expect(directives(text)).toEqual({ 'max-age': 5, 'min-fresh': 4 })
    expect(directives('max-stale, max-stale=7')).toEqual({ 'max-stale': 7 })
    expect(directives('max-stale=7, max-stale')).toEqual({ 'max-stale': 7 })
    expect(directives('max-stale')).toEqual({ 'max-stale': YES })
    expect(directives('no-cache=x, no-store=0')).toEqual({ 'no-cache': YES, 'no-store': YES })
  })

  it('may come from Pragma, if there is no Cache-Control', () => {
    expect(all({ pragma: 'No-Cache' })).toEqual({ 'no-cache': YES })
    expect(all({ pragma: 'x, no-cache, max-age=1' })).toEqual({ 'no-cache': YES })
    expect(all({ pragma: 'no-store' })).toEqual({})
    expect(all({ pragma: 'no-cache', 'cache-control': '' })).toEqual({})
    expect(all({ pragma: 'no-cache', 'cache-control': 'max-age=5' })).toEqual({ 'max-age': 5 })
  })
})

const fresh = (ageS: number, leftS: number): StoredAge => ({
  ageMs: ageS * 1000,
  freshForMs: leftS * 1000,
})
const stale = (byS: number): StoredAge => fresh(60, -byS)

describe('a stored response', () => {
  it('is allowed by a request without directives, fresh or stale', () => {
    for (const none of [NO_DIRECTIVES, said('x=1')]) {
      expect(isAcceptable(none, fresh(5, 5))).toBe(true)
      expect(isAcceptable(none, stale(5))).toBe(true)
      expect(isAcceptableOnError(none, stale(5))).toBe(true)
    }
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
