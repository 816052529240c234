import { describe, expect, it } from 'vitest'
import { CLIENTS } from '../testing/accept-encodings.ts'
import { acceptsCoding, normaliseCodings } from './content-coding.ts'

describe('normaliseCodings()', () => {
  it('has four forms for the fields of 20 clients', () => {
    const forms = CLIENTS.map(([, accept]) => normaliseCodings(accept))
    expect([...new Set(forms)]).toEqual(['zstd, br, gzip', 'br, gzip', 'gzip', ''])
  })

  it.each([
    ['', ''],
    ['GZIP;q=0.5 , br ; q=0.500, , gzip', 'br, gzip'],
    ['*', 'zstd, br, gzip'],
    ['*;q=0.1, gzip', 'gzip;q=0.9, zstd;q=0.8, br;q=0.7'],
    ['br;q=0, *', 'zstd, gzip'],
    ['gzip;q=0', ''],
  ])('lists the codings that %j accepts: %j', (accept, normal) => {
    expect(normaliseCodings(accept)).toBe(normal)
  })

  it.each([
    ['gzip, br;q=0.5', 'gzip;q=0.9, br;q=0.8'],
    ['gzip;q=0.5, identity', 'identity;q=0.9, gzip;q=0.8'],
  ])('keeps an unusual order of preference: %s', (accept, normal) => {
    expect(normaliseCodings(accept)).toBe(normal)
    expect(normaliseCodings(normal)).toBe(normal)
  })

  it.each([
    ['gzip, identity;q=0', 'gzip, identity;q=0'],
    ['gzip, *;q=0', 'gzip, identity;q=0'],
    ['*;q=0', 'identity;q=0'],
  ])('keeps that %s refuses an uncompressed body', (accept, normal) => {
    expect(normaliseCodings(accept)).toBe(normal)
  })

  it.each([
    ...['gzip;q=2', 'gzip;q=x', 'gzip;level=1', 'gzip br', 'gzip;q=1;q=0', 'gzip, gzip;q=0'],
    ...['deflate', 'x-gzip', 'br;q=0, zstd;q=0, gzip;q=0, *'],
  ])('has no form for %s', (accept) => expect(normaliseCodings(accept)).toBeUndefined())
})

describe('acceptsCoding()', () => {
  it.each([
    ['gzip, br', 'br', true],
    ['gzip, br;q=0', 'br', false],
    ['gzip', 'br', false],
    ['*', 'br', true],
    ['*, br;q=0', 'br', false],
    ['gzip', 'x-gzip', true],
    ['x-gzip', 'gzip', true],
    ['*, gzip;q=0', 'x-gzip', false],
    ['', 'gzip', false],
    ['gzip;q=2', 'gzip', undefined],
    ['gzip, gzip;q=0', 'gzip', undefined],
  ])('in %j, for %s: %s', (accept, coding, accepts) => {
    expect(acceptsCoding(accept, coding)).toBe(accepts)
  })
})
