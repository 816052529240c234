import { describe, expect, it } from 'vitest'
import { normaliseField, selectFields, selects, varyNames } from './vary.ts'

const vary = (...lines: string[]) => varyNames(lines.map((line) => ['vary', line] as const))

describe('varyNames', () => {
  it('returns sorted names in lower case, once each, from several lines', () => {
    expect(vary('X-B, Accept', 'x-a,ACCEPT')).toEqual(['accept', 'x-a', 'x-b'])
  })

  it('returns no name without Vary, or for an empty Vary', () => {
    expect(vary()).toEqual([])
    expect(vary('', ' , ,')).toEqual([])
  })

  it.each([['*'], ['foo, *'], ['*, foo'], ['foo', '*'], [',*,'], [' *\t'], ['foo', 'bar, *']])(
    'returns * for %j',
    (...lines) => expect(vary(...lines)).toBe('*'),
  )

  it.each(['"*"', 'foo bar', 'foo;q=1', 'a=b', 'caf\u00e9'])(
    'treats the malformed %s as *',
    (line) => {
      expect(vary(line)).toBe('*')
    },
  )
})

describe('normaliseField() of Accept-Encoding', () => {
  const codings = (value: string) => normaliseField('accept-encoding', value)

  it('is the list of codings that a server would choose', () => {
    expect(codings('gzip, deflate, BR;q=0.9')).toBe('gzip;q=0.9, br;q=0.8')
  })

  it.each(['gzip;q=2', 'gzip;q=x', 'gzip;level=1', 'gzip br', 'deflate'])(
    'keeps %s unchanged',
    (value) => expect(codings(value)).toBe(value),
  )

  it('keeps contradictory weights unchanged', () => {
    expect(codings('gzip,gzip;q=0')).toBe('gzip, gzip;q=0')
  })
})

describe('normaliseField() of other fields', () => {
  it('ignores case and space in accept-language, and keeps order and weights', () => {
    expect(normaliseField('accept-language', 'de-DE ,en ; q=0.5')).toBe('de-de, en;q=0.5')
    expect(normaliseField('accept-language', 'en, de')).not.toBe(
      normaliseField('accept-language', 'de, en'),
    )
  })

  it('collapses space around commas only', () => {
    expect(normaliseField('x-a', 'b ,\ta  c,d')).toBe('b, a  c, d')
    expect(normaliseField('x-a', 'B')).toBe('B')
    expect(normaliseField('x-a', '\u00a0b')).toBe('\u00a0b')
  })

  it('does not touch quoted strings', () => {
    expect(normaliseField('x-a', '"a , b"')).toBe('"a , b"')
  })

  it('takes linear time on inner space', () => {
    const value = `a${' '.repeat(500_000)}b`
    expect(normaliseField('x-a', value)).toBe(value)
    expect(normaliseField('accept-encoding', value)).toBe(value)
  })
})

describe('the selection of a variant', () => {
  it('distinguishes an absent field from an empty one', () => {
    expect(selectFields(['a', 'b', 'c'], { a: '1', b: '' })).toEqual([
      ['a', '1'],
      ['b', ''],
      ['c', null],
    ])
    expect(selects({ vary: [['a', null]] }, {})).toBe(true)
    expect(selects({ vary: [['a', null]] }, { a: '' })).toBe(false)
    expect(selects({ vary: [['a', '']] }, {})).toBe(false)
  })

  it('compares fields by meaning, and requires every field to match', () => {
    const stored = selectFields(['accept-encoding', 'x-a'], {
      'accept-encoding': 'gzip, br',
      'x-a': '1',
    })
    expect(selects({ vary: stored }, { 'accept-encoding': 'br, gzip;q=0.9', 'x-a': '1' })).toBe(
      true,
    )
    expect(selects({ vary: stored }, { 'accept-encoding': 'gzip, br', 'x-a': '2' })).toBe(false)
    expect(selects({ vary: stored }, { 'accept-encoding': 'gzip, br' })).toBe(false)
    expect(selects({ vary: [] }, { 'x-a': '2' })).toBe(true)
  })
  it('is the same without Accept-Encoding as for an uncompressed body', () => {
    expect(selectFields(['accept-encoding'], {})).toEqual([['accept-encoding', '']])
    const stored = selectFields(['accept-encoding'], { 'accept-encoding': 'identity' })
    expect(selects({ vary: stored }, {})).toBe(true)
  })
})

describe('selects()', () => {
  const stored = (accept: string | undefined, coding: string) => ({
    vary: selectFields(['accept-encoding'], { 'accept-encoding': accept }),
    fields: ['x-names', 'content-encoding', 'content-encoding', coding],
  })

  it.each([
    ['gzip, deflate', 'deflate', 'gzip', false],
    ['gzip, deflate', 'gzip', 'gzip', true],
    ['gzip, deflate', 'Deflate', 'gzip, deflate', true],
    ['gzip, deflate', 'deflate', 'gzip, deflate;q=0', false],
    ['gzip', 'x-gzip', 'gzip', true],
    ['gzip', 'identity', 'gzip', true],
    ['gzip', '', 'gzip', true],
    ['gzip, deflate', 'gzip, deflate', 'gzip', false],
    ['gzip, *', 'x-own', 'gzip, br, zstd', false],
    [undefined, 'gzip', 'identity', false],
    [undefined, 'gzip', undefined, true],
    ['gzip;q=2', 'gzip', 'gzip;q=2', true],
  ])('a response to %j in %s, for a request with %j: %s', (accept, coding, other, is) => {
    const headers = other === undefined ? {} : { 'accept-encoding': other }
    const entry = stored(accept, coding)
    expect([selects({ vary: entry.vary }, headers), selects(entry, headers)]).toEqual([true, is])
  })
})
