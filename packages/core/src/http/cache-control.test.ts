import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deltaSeconds, parseCacheControl } from './freshness.ts'

const parse = (...lines: string[]) => parseCacheControl(lines)
const all = (...lines: string[]) => Object.fromEntries(parse(...lines))

describe('parseCacheControl', () => {
  it('parses every directive', () => {
    const line =
      'no-store, no-cache, private, public, must-revalidate, proxy-revalidate, must-understand, ' +
      'no-transform, immutable, max-age=1, s-maxage=2, stale-while-revalidate=3, stale-if-error=4'
    const names = line.split(', ').map((directive) => directive.replace(/=.*/, ''))
    expect([...parse(line).keys()]).toEqual(names)
    expect(all(line)).toMatchObject({
      ...{ 'max-age': 1, 's-maxage': 2, 'stale-while-revalidate': 3, 'stale-if-error': 4 },
    })
  })

  it('finds nothing in an absent or empty field', () => {
    expect(parse().size).toBe(0)
    expect(parse('').size).toBe(0)
  })

  it('parses names in any letter case and over several lines', () => {
    const read = { 'max-age': 10, 'no-store': 0, public: 0 }
    expect(all('MAX-AGE=10', 'No-Store', 'PuBlIc')).toEqual(read)
  })

  it.each(['private=""', 'private="x"', 'private="a, b"', 'private=x', 'private, private="a"'])(
    'parses %s as unqualified private',
    (line) => expect(parse(line).has('private')).toBe(true),
  )

  it.each(['no-cache="set-cookie"', 'no-cache=""', 'no-cache=', 'NO-CACHE="a"'])(
    'parses %s as unqualified no-cache',
    (line) => expect(parse(line).has('no-cache')).toBe(true),
  )

  it('takes no directive out of a quoted argument', () => {
    expect(all('ext="private, no-store", max-age=5')).toEqual({ ext: 0, 'max-age': 5 })
    expect(all('ext="a\\", no-store", public')).toEqual({ ext: 0, public: 0 })
  })

  it.each([
    '"no-store"',
    'no-store;',
    'public; no-store',
    'public no-store',
    'no-store=""',
    ' , no-store , ',
    'a="b, no-store',
    'a=", no-store',
    '=no-store',
    'no-store*',
    'max-age=60;no-store',
    'max-age=60 no-store',
    '\tno-store',
  ])('finds no-store in the malformed %s', (line) => expect(parse(line).has('no-store')).toBe(true))

  it.each(['xno-store', 'no-store-x', 'no_store', 'nostore', 'ext=no-store', 'no-\u017ftore'])(
    'does not find no-store in %s',
    (line) => expect(parse(line).has('no-store')).toBe(false),
  )

  it('takes the smallest of repeated numbers', () => {
    expect(parse('max-age=60, max-age=10', 'max-age=30').get('max-age')).toBe(10)
    expect(parse('max-age=60, max-age=x').get('max-age')).toBe(0)
    expect(parse('s-maxage=9, S-MAXAGE=8').get('s-maxage')).toBe(8)
  })

  it.each([
    'max-age',
    'max-age=',
    'max-age=-1',
    'max-age=+1',
    'max-age=1.5',
    'max-age=1e3',
    'max-age=0x10',
    "max-age='60'",
    'max-age = 60',
    'max-age= 60',
    'max-age="60',
    'max-age="6 0"',
    'max-age=\u0661',
  ])('treats %s as stale', (line) => expect(parse(line).get('max-age')).toBe(0))

  it('parses a quoted number and leading zeros', () => {
    expect(parse('max-age="60"').get('max-age')).toBe(60)
    expect(parse('max-age=0060 , public').get('max-age')).toBe(60)
  })

  it('clamps numbers that overflow', () => {
    expect(parse('max-age=99999999999').get('max-age')).toBe(2 ** 31)
    expect(parse(`s-maxage=${'9'.repeat(5000)}`).get('s-maxage')).toBe(2 ** 31)
  })

  it('finds a restrictive directive after any text on another line', () => {
    fc.assert(
      fc.property(fc.string(), (noise) => {
        for (const name of ['private', 'no-store', 'no-cache']) {
          const read = parseCacheControl([noise, name])
          expect(read.has(name)).toBe(true)
        }
      }),
    )
  })
})

describe('deltaSeconds', () => {
  it('accepts digits only', () => {
    expect(deltaSeconds('12')).toBe(12)
    expect(deltaSeconds('')).toBeUndefined()
    expect(deltaSeconds('1 ')).toBeUndefined()
    expect(deltaSeconds(undefined)).toBeUndefined()
  })
})
