import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { acceptedCodings, type Coding, codedEtag, formFields, isCodable } from './content-coding.ts'

const ALL: readonly Coding[] = ['br', 'zstd', 'gzip']

describe('the codings that a client accepts', () => {
  it.each<[string | undefined, readonly Coding[]]>([
    [undefined, []],
    ['', []],
    ['identity', []],
    ['gzip, deflate, br, zstd', ['br', 'zstd', 'gzip']],
    ['gzip', ['gzip']],
    ['GZIP ; q=0.5, br;q=0.4', ['gzip', 'br']],
    ['x-gzip', ['gzip']],
    ['*', ['br', 'zstd', 'gzip']],
    ['*;q=0.1, gzip', ['gzip', 'br', 'zstd']],
    ['br;q=0, *', ['zstd', 'gzip']],
    ['gzip;q=0', []],
    ['gzip, gzip;q=0', []],
    ['gzip;q=0.5, identity', []],
    ['gzip;q=1, identity;q=0.5', ['gzip']],
    ['identity;q=0', []],
    ['gzip;q=2, br;q=x, zstd;level=3', []],
    ['gzip,,', ['gzip']],
    ['gzipx, xbr', []],
  ])('are for Accept-Encoding %j: %j', (accept, codings) => {
    expect(acceptedCodings(accept, ALL)).toEqual(codings)
  })

  it('are among those that the field names and Node supports', () => {
    fc.assert(
      fc.property(fc.string(), fc.subarray([...ALL]), (accept, offered) => {
        for (const coding of acceptedCodings(accept, offered)) {
          expect(offered).toContain(coding)
          expect(accept.toLowerCase()).toMatch(new RegExp(`${coding}|\\*`))
        }
      }),
    )
  })
})

describe('a compressed form of a response', () => {
  it('has its own strong ETag, its coding and Vary', () => {
    const fields = ['content-type', 'text/css', 'etag', '"a-b"', 'vary', 'Origin', 'x', 'y']
    expect(formFields(fields, 'br')).toEqual([
      ...['content-type', 'text/css', 'etag', '"a-b-br"', 'x', 'y'],
      ...['content-encoding', 'br', 'vary', 'Origin, Accept-Encoding'],
    ])
    expect(formFields(fields)).toEqual([
      ...['content-type', 'text/css', 'etag', '"a-b"', 'x', 'y'],
      ...['vary', 'Origin, Accept-Encoding'],
    ])
    expect(formFields([])).toEqual(['vary', 'Accept-Encoding'])
  })

  it.each([
    ['vary', 'accept-encoding'],
    ['vary', 'Origin , ACCEPT-ENCODING'],
    ['vary', '*'],
  ])('does not repeat a member of Vary: %s: %s', (name, value) => {
    expect(formFields([name, value])).toEqual([name, value])
  })

  it.each([
    ['W/"a"', 'W/"a"'],
    ['"a"', '"a-gzip"'],
    ['""', '"-gzip"'],
    ['a', 'a'],
    ['"a"b"', '"a"b"'],
  ])('turns the ETag %s into %s', (tag, coded) => {
    expect(codedEtag(tag, 'gzip')).toBe(coded)
  })

  it.each([
    [200, [], true],
    [203, [], false],
    [200, ['content-encoding', 'identity'], false],
    [200, ['cache-control', 'public, No-Transform'], false],
    [200, ['content-digest', 'sha-256=:AA==:'], false],
    [200, ['content-range', 'bytes 0-1/2'], false],
  ])('is made of a %i with %j: %s', (status, fields, is) => {
    const typed = ['content-type', 'Text/HTML ; charset=utf-8', ...fields]
    expect(isCodable(status, typed, (type) => type === 'text/html')).toBe(is)
    expect(isCodable(status, typed, () => false)).toBe(false)
  })
})
