import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type KeyField, parseIdempotencyKey } from './idempotency-key.ts'

const SEED = { seed: 7, numRuns: 2_000 }

const lenient = (...lines: string[]): KeyField => parseIdempotencyKey(lines, false)
const strict = (...lines: string[]): KeyField => parseIdempotencyKey(lines, true)
const key = (text: string): KeyField => ({ type: 'key', key: text })
const INVALID = { type: 'invalid', problem: expect.any(String) }
const DUPLICATE = { type: 'duplicate' }

describe('the quoted form (RFC 9651 §4.2.5)', () => {
  it.each([
    ['"abc"', 'abc'],
    ['  "abc"\t', 'abc'],
    ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
    [String.raw`"a\"b\\c"`, String.raw`a"b\c`],
    [String.raw`"\\\""`, String.raw`\"`],
    ['"a;b,c d"', 'a;b,c d'],
    ['" a "', ' a '],
    ['"*{tag}:?[x]"', '*{tag}:?[x]'],
    [`"${'k'.repeat(255)}"`, 'k'.repeat(255)],
    [`"${'\\"'.repeat(255)}"`, '"'.repeat(255)],
  ])('parses %j', (line, expected) => {
    expect(strict(line)).toEqual(key(expected))
    expect(lenient(line)).toEqual(key(expected))
  })

  it.each([
    ['""'],
    ['"   "'],
    ['"abc'],
    ['"'],
    ['"abc\\"'],
    [String.raw`"a\nb"`],
    [String.raw`"a\u0041"`],
    ['"a\tb"'],
    ['"a\0b"'],
    ['"a\x7fb"'],
    ['"a\r\nx: y"'],
    ['"caf\u00e9"'],
    ['"\u{1f511}"'],
    ['"abc"def'],
    ['"abc" "def"'],
    [String.raw`"a\",b" c`],
    [`"${'k'.repeat(256)}"`],
    [`"${'k'.repeat(10_000)}"`],
  ])('refuses %j', (line) => {
    expect(strict(line)).toEqual(INVALID)
    expect(lenient(line)).toEqual(INVALID)
  })
})

describe('parameters (RFC 9651 §4.2.3.2)', () => {
  it.each([
    ';p',
    ';p=1',
    ';   p=1;q=-999999999999.999;r',
    ';*p.a_b-c*=tok/en:x',
    ';p="a, b;\\"c\\\\"',
    ';p=:YWJj:',
    ';p=::',
    ';p=?0;q=?1',
    ';p=@-1659578233',
    ';p=%"f%c3%bc r"',
    ';p=999999999999999',
    ';p=1;p=2',
  ])('ignores %j', (parameters) => {
    expect(strict(`"k"${parameters}`)).toEqual(key('k'))
  })

  it.each([
    ';',
    ' ;p',
    ';P=1',
    ';1=1',
    ';p=',
    ';p= 1',
    ';p=-',
    ';p=1.',
    ';p=1.2345',
    ';p=1234567890123.1',
    ';p=1000000000000000',
    ';p="a',
    ';p="\u00e9"',
    ';p=:YW Jj:',
    ';p=:YWJj',
    ';p=?2',
    ';p=@1.5',
    ';p=%"%C3%BC"',
    ';p=%"%ff"',
    ';p=%"a',
    ';p=%x',
    ';p=(1)',
    ';p=1 ;q',
    ';p=1x',
  ])('refuses %j', (parameters) => {
    expect(strict(`"k"${parameters}`)).toEqual(INVALID)
  })
})

describe('the bare form', () => {
  it.each([
    'abc',
    '8e03978e-40d5-43dd-bc93-6894a57f9324',
    '01ARZ3NDEKTSV4RRFFQ69G5FAV',
    'a/b+c==',
    "!#$%&'()*+-./0:<=>?@A[]^_`a{|}~",
    '123',
    '?1',
    ':YWJj:',
    'k'.repeat(255),
  ])('is the key itself: %j', (line) => {
    expect(lenient(line)).toEqual(key(line))
    expect(lenient(`"${line}"`)).toEqual(key(line))
    expect(strict(line)).toEqual(INVALID)
  })

  it.each([
    '',
    ' \t ',
    'a b',
    'a;b',
    'abc;p=1',
    'a"b',
    'abc"',
    'a\\b',
    'a\0',
    'a\x7f',
    'caf\u00e9',
    'a\u00a0',
    '\u00a0',
    'k'.repeat(256),
  ])('refuses %j', (line) => {
    expect(lenient(line)).toEqual(INVALID)
    expect(strict(line)).toEqual(INVALID)
  })

  it('is case-sensitive', () => {
    expect(lenient('ABC')).not.toEqual(lenient('abc'))
  })
})

describe('the number of lines', () => {
  it('makes the key missing if it is 0', () => {
    expect(lenient()).toEqual({ type: 'missing' })
    expect(strict()).toEqual({ type: 'missing' })
  })

  it.each([
    [['a', 'b']],
    [['a', 'a']],
    [['"a"', '"a"']],
    [['', '']],
    [['a, b']],
    [['a,a']],
    [['"a", "b"']],
    [['"a","a"']],
    [['"a";p=1 , "b"']],
    [['"a", ']],
    [[', "a"']],
    [[',']],
    [['a, "b']],
  ])('makes the key a duplicate for %j', (lines) => {
    expect(lenient(...lines)).toEqual(DUPLICATE)
    expect(strict(...lines)).toEqual(DUPLICATE)
  })
})

describe('any field value', () => {
  const line = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...'"\\,; a*=?1@:%\t\0\u00e9'), maxLength: 30 }),
  )

  it('gives a valid key, or a problem that does not repeat it', () => {
    const keys = fc.property(line, fc.boolean(), (text, isStrict) => {
      const field = parseIdempotencyKey([text], isStrict)
      if (field.type === 'key') {
        expect(field.key).toMatch(/^[ -~]{1,255}$/)
        expect(field.key.trim()).not.toBe('')
      }
      if (field.type === 'invalid') expect(field.problem).toMatch(/^[A-Z][^"\\]+\.$/)
    })
    fc.assert(keys, SEED)
  })

  it('has the same key in quoted form, and in bare form if that is possible', () => {
    const printable = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 255 })
    const keys = printable.filter((text) => text.trim() !== '' && /^[ -~]+$/.test(text))
    const returns = fc.property(keys, (text) => {
      expect(strict(`"${text.replace(/["\\]/g, '\\$&')}"`)).toEqual(key(text))
      if (!/[ ",;\\]/.test(text)) expect(lenient(text)).toEqual(key(text))
    })
    fc.assert(returns, SEED)
  })

  it('gives the same key with strict, if strict accepts it', () => {
    const agree = fc.property(line, (text) => {
      const field = strict(text)
      if (field.type === 'key') expect(lenient(text)).toEqual(field)
    })
    fc.assert(agree, SEED)
  })
})
