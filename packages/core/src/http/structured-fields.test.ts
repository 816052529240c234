import { describe, expect, it } from 'vitest'
import { parseDictionary, parseItem, parseList } from './structured-fields.ts'

const read = (...lines: string[]) => {
  const members = parseDictionary(lines)
  return members === undefined ? 'no dictionary' : Object.fromEntries(members)
}
const bare = (text: string) => {
  const members = read(`a=${text}`)
  return typeof members === 'string' ? members : members.a
}
const integer = (value: number) => ({ type: 'integer', value })
const TRUE = { type: 'boolean', value: true }

describe('members (RFC 9651 §4.2.2)', () => {
  it.each([
    ['', {}],
    ['   ', {}],
    ['a', { a: TRUE }],
    ['a, b=2', { a: TRUE, b: integer(2) }],
    ['  a=1 \t,\t  b  ', { a: integer(1), b: TRUE }],
    ['*a_b-c.d*=1', { '*a_b-c.d*': integer(1) }],
    ['a=1, b=2, a=3', { a: integer(3), b: integer(2) }],
    [
      'a;x, b=1;y=2;z="s;,=", c=?0;  w',
      { a: TRUE, b: integer(1), c: { type: 'boolean', value: false } },
    ],
    ['a=(), b=(1 "x";p   tok)', { a: { type: 'inner-list' }, b: { type: 'inner-list' } }],
    ['a=( 1 2 );q=?1', { a: { type: 'inner-list' } }],
  ])('are parsed from %j', (line, expected) => expect(read(line)).toEqual(expected))

  it('are parsed from all lines of the field', () => {
    expect(read('a=1', 'b=2, a=3')).toEqual({ a: integer(3), b: integer(2) })
    expect(read()).toEqual({})
  })

  it.each([
    ['a,'],
    [',a'],
    ['a,,b'],
    ['a b'],
    ['A=1'],
    ['1=1'],
    ['-a=1'],
    ['a='],
    ['a= 1'],
    ['a =1'],
    ['a=1;'],
    ['a=1;P'],
    ['a=1;p='],
    ['a ;p'],
    ['\ta'],
    ['a=1, &&&'],
    ['a=(1 2'],
    ['a=(1"x")'],
    ['a=(1\t2)'],
    ['a=(1,2)'],
    ['a=((1))'],
    ['a=1 2'],
    ['a;p=(1)'],
  ])('are not parsed from %j', (line) => expect(read(line)).toBe('no dictionary'))

  it('are not parsed from lines of which one is empty', () => {
    expect(read('a', '')).toBe('no dictionary')
    expect(read('', 'a')).toBe('no dictionary')
  })
})

describe('values (RFC 9651 §4.2.3.1)', () => {
  it.each([
    ['0', integer(0)],
    ['-12', integer(-12)],
    ['007', integer(7)],
    ['999999999999999', integer(999_999_999_999_999)],
    ['1.5', { type: 'decimal', value: 1.5 }],
    ['-123456789012.125', { type: 'decimal', value: -123_456_789_012.125 }],
    ['"a \\"b\\" \\\\"', { type: 'string', value: 'a "b" \\' }],
    ['""', { type: 'string', value: '' }],
    ['tok/en:x', { type: 'token', value: 'tok/en:x' }],
    ['*', { type: 'token', value: '*' }],
    ['?1', TRUE],
    ['?0', { type: 'boolean', value: false }],
    [':aGk=:', { type: 'bytes', value: 'aGk=' }],
    [':aGk:', { type: 'bytes', value: 'aGk' }],
    ['::', { type: 'bytes', value: '' }],
    ['@-1659578233', { type: 'date', value: -1_659_578_233 }],
    ['%"f%c3%bc"', { type: 'display-string', value: 'fü' }],
  ])('%s is valid', (text, expected) => expect(bare(text)).toEqual(expected))

  it.each([
    ['1000000000000000'],
    ['1.'],
    ['1.2345'],
    ['1234567890123.1'],
    ['--1'],
    ['-'],
    ['+1'],
    ['.5'],
    ['1e3'],
    ['"a'],
    ['"a\\n"'],
    ['"ü"'],
    ['"a\tb"'],
    ['?2'],
    ['?'],
    [':a*:'],
    [':a'],
    [':a:'],
    [':=:'],
    [':aGk==:'],
    [':aG=k:'],
    [':aGkt=:'],
    [':YQ=:'],
    [':YQ===:'],
    [': YQ==:'],
    ['@1.5'],
    ['@'],
    ['@1000000000000000'],
    ['%"f%C3%BC"'],
    ['%"%ff"'],
    ['%"a'],
    ["'a'"],
    ['&'],
  ])('%s is invalid', (text) => expect(bare(text)).toBe('no dictionary'))
})

describe('an Item (RFC 9651 §4.2.3)', () => {
  it('is one value with its parameters', () => {
    expect(parseItem('"a, b";p=1;q')).toEqual({ type: 'string', value: 'a, b' })
    expect(parseItem('12')).toEqual(integer(12))
    expect(parseItem('  12;a ')).toEqual(integer(12))
  })

  it.each([[''], ['(a)'], ['a, b'], ['a\t'], ['\ta'], ['"a"b'], ['a;']])(
    'is invalid as %j',
    (text) => expect(parseItem(text)).toBeUndefined(),
  )
})

describe('lists (RFC 9651 §4.2.1)', () => {
  it.each([
    ['', []],
    ['1', [integer(1)]],
    ['  a, "b";x=1 ,\t?1  ', ['token', 'string', 'boolean']],
    ['(1 2), ();q', ['inner-list', 'inner-list']],
  ])('are parsed from %j', (line, expected) => {
    const types = parseList([line])?.map(({ type }) => type)
    expect(types).toEqual(expected.map((each) => (typeof each === 'string' ? each : each.type)))
  })

  it('are parsed from all lines of the field', () => {
    expect(parseList(['1, 2', '3'])).toEqual([1, 2, 3].map(integer))
    expect(parseList([])).toEqual([])
  })

  it.each(['1,', ',1', '1 2', '1,,2', 'a=1', '"a', '(1', '1;', 'ä'])(
    'are not parsed from %j',
    (line) => {
      expect(parseList([line])).toBeUndefined()
    },
  )
})
