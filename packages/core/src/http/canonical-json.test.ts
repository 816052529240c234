import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLinear } from '../testing/cpu-time.ts'
import { canonicalJson, canonicalValue } from './fingerprint.ts'

const SEED = { seed: 7, numRuns: 1_000 }

describe('canonicalJson', () => {
  it.each([
    ['{"b":1,"a":2}', '{"a":2,"b":1}'],
    [' { "a" : [ 1 , { } , [ ] ] }\r\n\t', '{"a":[1,{},[]]}'],
    ['{"a":{"d":null,"c":true},"A":false}', '{"A":false,"a":{"c":true,"d":null}}'],
    [String.raw`"\u0061\/\u00e9\n\u000A\u0022"`, '"a/\u00e9\\n\\n\\""'],
    [String.raw`{"\u0061":1}`, '{"a":1}'],
    [String.raw`"\ud83d\ude00"`, '"\u{1f600}"'],
    [String.raw`"\uD800"`, String.raw`"\ud800"`],
    ['"\u2028"', '"\u2028"'],
    ['"[1, 2] {:}"', '"[1, 2] {:}"'],
    ['{"a":"b","c":["d","e"]}', '{"a":"b","c":["d","e"]}'],
    ['', undefined],
    ['""', '""'],
  ])('writes %s', (text, expected) => {
    expect(canonicalJson(text)).toBe(expected)
  })

  it.each([
    [['1', '1.0', '1e0', '10e-1', '0.1e1', '1E+0', '100.00e-2', '1e-0']],
    [['100', '1e2', '1E2', '1.00e+2', '1000e-1']],
    [['0', '0.0', '0e5']],
    [['-0', '-0.00', '-0e-7']],
    [['-1.5', '-15e-1', '-0.15e1']],
    [['123456789012345', '12345678901234.5e1', '1.23456789012345e14']],
    [['1e98', '10e97', '0.1e+99']],
    [['0.1', '1e-1', '0.10', '0.01e1']],
    [['{"a":1}', '{"a":2,"a":1}', '{"\\u0061":[],"a":1}']],
  ])('treats as one value: %j', (texts) => {
    expect(canonicalJson(texts[0] as string)).toBeDefined()
    expect(new Set(texts.map((text) => canonicalJson(text))).size).toBe(1)
  })

  it.each([
    ['0.12345678901234', '0.12345678901235'],
    ['123456789012345', '123456789012346'],
    ['1e-99', '0'],
    ['1', '-1'],
    ['0', '-0'],
    ['10', '1'],
    ['1', '"1"'],
    ['null', '"null"'],
    ['{}', '[]'],
    ['[1,2]', '[2,1]'],
    ['["a","b"]', '["a,b"]'],
    ['[1,2]', '[12]'],
    ['[[],[]]', '[[[]]]'],
    ['{"a":1,"a":2}', '{"a":2,"a":1}'],
    ['{"__proto__":1}', '{"__proto__":2}'],
    ['{"__proto__":{"a":1}}', '{}'],
    ['{"__proto__":null,"a":1}', '{"a":1}'],
    ['{"constructor":1}', '{}'],
    ['{"toJSON":1}', '{}'],
    ['"9007199254740992"', '"9007199254740993"'],
    ['{"9007199254740992e999":1}', '{"9007199254740993e999":1}'],
    ['["\\"9007199254740992"]', '["\\"9007199254740993"]'],
    ['"\\ud800"', '"\\ufffd"'],
    ['"\u00e9"', '"e\u0301"'],
  ])('distinguishes %s and %s', (a, b) => {
    expect(canonicalJson(a)).toBeDefined()
    expect(canonicalJson(b)).toBeDefined()
    expect(canonicalJson(a)).not.toBe(canonicalJson(b))
  })

  it.each([
    '9007199254740993',
    '9007199254740993.0',
    '900719925474099.3e1',
    '-1234567890123456',
    '1.234567890123456',
    '0.1000000000000000055511151231257827',
    '1e400',
    '-1E+400',
    '1e-400',
    `1e${'9'.repeat(20)}`,
    '{"a":["x",9007199254740993]}',
    '["\\"",9007199254740993,"\\\\"]',
  ])('has no form for a number that JSON.parse may round: %s', (text) => {
    expect(canonicalJson(text)).toBeUndefined()
  })

  it.each([
    '',
    ' ',
    '\ufeff1',
    '\u00a01',
    '01',
    '-',
    '+1',
    '.5',
    '1.',
    '1e',
    '0x1',
    'NaN',
    'Infinity',
    'undefined',
    'nul',
    'truefalse',
    'True',
    "'a'",
    '"a',
    '"\\"',
    '"\\x41"',
    '"\\u12g4"',
    '"a\nb"',
    '"\u0000"',
    '[',
    ']',
    '[1',
    '[1,]',
    '[,1]',
    '[1 2]',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    '{1:1}',
    '{"a":1]',
    '1 2',
    '{}{}',
    '/**/1',
    '1//',
  ])('refuses %j', (text) => {
    expect(canonicalJson(text)).toBeUndefined()
  })

  it('accepts a depth of 512, and does not overflow the stack beyond', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    const objects = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
    expect(canonicalJson(nested(512))).toBe(nested(512))
    expect(canonicalJson(objects(512))).toBe(objects(512))
    expect(canonicalJson(`[${nested(511)},${nested(511)}]`)).toBeDefined()
    for (const depth of [513, 10_000, 100_000]) {
      expect(canonicalJson(nested(depth))).toBeUndefined()
      expect(canonicalJson(objects(depth))).toBeUndefined()
      expect(canonicalJson('['.repeat(depth))).toBeUndefined()
    }
  })

  it.each([
    ['a long string', (n: number) => `"${'a'.repeat(n)}"`],
    ['escapes', (n: number) => `"${'\\n'.repeat(n)}"`],
    ['never closed', (n: number) => `"${'\\\\'.repeat(n)}`],
    ['strings that need a second pass', (n: number) => `[${'"\u00e9\\n",'.repeat(n / 8)}1]`],
    ['digits', (n: number) => `${'1'.repeat(n)}`],
    ['inner zeros', (n: number) => `1${'0'.repeat(n)}1`],
    ['fraction', (n: number) => `0.${'0'.repeat(n)}1`],
    ['an exponent of digits', (n: number) => `1e${'9'.repeat(n)}`],
    ['an exponent of zeros', (n: number) => `1e${'0'.repeat(n)}1`],
    ['spaces', (n: number) => `${' '.repeat(n)}1${' '.repeat(n)}`],
    ['members of the same name', (n: number) => `{${'"a":1,'.repeat(n / 8)}"a":1}`],
    ['names with a long common beginning', (n: number) => `{${longNames(n / 1_000, 1_000)}}`],
    [
      'a value deep inside',
      (n: number) => `${'{"a":'.repeat(99)}"${'x'.repeat(n)}"${'}'.repeat(99)}`,
    ],
  ])('takes linear time: %s', (_, textOf) => {
    expect(isLinear(textOf, canonicalJson, 256_000)).toBe(true)
  })
})

function longNames(count: number, length: number): string {
  const name = (index: number) => `"${'n'.repeat(length)}${(index * 7919) % count}":1`
  return Array.from({ length: count }, (_, index) => name(index)).join()
}

describe('any JSON', () => {
  // 15 digits at most. JSON.parse may round other numbers.
  const digits = fc.integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 })
  const flat = [digits, fc.string(), fc.string({ unit: 'binary' }), fc.boolean()]
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      ...flat,
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'é', '1', '10', '2'), tie('value')),
    ),
  }))

  /** The same value in another spelling, chosen by `next`. */
  function respell(of: unknown, next: () => number): string {
    const space = () => [' ', '\n\t', '', ''][next() % 4]
    if (typeof of === 'string') return respellString(of, next)
    if (typeof of === 'number' && of !== 0) {
      const short = Math.abs(of) < 1e13 ? [`${of}.0`, `${of}0e-1`] : []
      const spellings = [`${of}`, `${of}E+00`, ...short]
      return spellings[next() % spellings.length] as string
    }
    if (typeof of !== 'object' || of === null) return JSON.stringify(of)
    if (Array.isArray(of)) {
      return `[${of.map((each) => space() + respell(each, next) + space())}]`
    }
    const shuffled = Object.entries(of)
      .map(([name, each]) => ({ name, each, rank: next() }))
      .sort((a, b) => a.rank - b.rank)
    const members = shuffled.map(
      ({ name, each }) => `${space()}${respell(name, next)}${space()}:${respell(each, next)}`,
    )
    return `{${members}${space()}}`
  }

  function respellString(of: string, next: () => number): string {
    const units =
      JSON.stringify(of)
        .slice(1, -1)
        .match(/\\u....|\\.|./gs) ?? []
    const hex = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
    return `"${units.map((unit) => (unit.length > 1 || next() % 2 ? unit : hex(unit))).join('')}"`
  }

  const coins = fc.infiniteStream(fc.nat({ max: 1_000_000 }))
  const tossing = (stream: Iterator<number>) => () => stream.next().value as number

  it('has one canonical form', () => {
    const same = fc.property(value, coins, (any, stream) => {
      const text = respell(any, tossing(stream))
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(any)))
      expect(canonicalJson(text)).toBe(canonicalJson(JSON.stringify(any)))
    })
    fc.assert(same, SEED)
  })

  it('two JSON texts have the same canonical form only if their values are equal', () => {
    const alike = fc.property(value, value, (a, b) => {
      const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
      // JSON loses -0, prototypes and undefined.
      const equal = isDeepStrictEqual(JSON.parse(left), JSON.parse(right))
      expect(canonicalJson(left) === canonicalJson(right)).toBe(equal)
    })
    fc.assert(alike, { ...SEED, numRuns: 3_000 })
  })

  it('a canonical form is its own canonical form, and parses to the same value as the original', () => {
    const stays = fc.property(
      value.map((any) => JSON.stringify(any)),
      (text) => {
        const canonical = canonicalJson(text)
        expect(canonicalJson(canonical ?? '')).toBe(canonical)
        expect(JSON.parse(canonical ?? '')).toEqual(JSON.parse(text, (_, v) => (v === 0 ? 0 : v)))
      },
    )
    fc.assert(stays, SEED)
  })

  it('is accepted if and only if JSON.parse accepts it', () => {
    const token = fc.constantFrom(
      ...'[]{},:"',
      '"a"',
      '1',
      '-',
      '0',
      '.',
      'e',
      'true',
      'null',
      ' ',
      '\\',
      '\n',
    )
    const soup = fc.array(token, { maxLength: 8 }).map((tokens) => tokens.join(''))
    const broken = fc
      .tuple(
        value.map((any) => JSON.stringify(any)),
        fc.nat(),
        fc.string({ maxLength: 1 }),
      )
      .map(([text, at, piece]) => {
        const cut = at % (text.length + 1)
        return text.slice(0, cut) + piece + text.slice(cut + 1)
      })
    // The short numbers are not rounded.
    const agrees = fc.property(fc.oneof(soup, broken, fc.string()), (text) => {
      fc.pre(!/[e\d][+-]?\d{3}/i.test(text))
      expect(canonicalJson(text) !== undefined).toBe(isJson(text))
    })
    fc.assert(agrees, { ...SEED, numRuns: 5_000 })
  })
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe('canonicalValue', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const deep = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000))

  it.each([
    [{ b: 1, a: [1.5, 'x'] }, '{"a":[1.5,"x"],"b":1}'],
    [{ 'a!': 1, a: 2 }, '{"a":2,"a!":1}'],
    ['\ud800', '"\\ud800"'],
    [2 ** 53, '9007199254740992'],
    [{ toJSON: () => 1 }, '1'],
    [JSON.parse('{"toJSON":1}'), '{"toJSON":1}'],
    [new Array(2), '[undefined,undefined]'],
    [[Number.NaN, -Infinity], '[NaN,-Infinity]'],
    [null, 'null'],
    ['a', '"a"'],
    [0, '0'],
    [-0, '-0'],
    [1e21, '1e+21'],
    [{ a: undefined, b: 1 }, '{"b":1}'],
    [{}, '{}'],
    [Object.create(null), '{}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [JSON.parse('{"__proto__":1}'), '{"__proto__":1}'],
  ])('writes %o', (value, expected) => {
    expect(canonicalValue(value)).toBe(expected)
  })

  it.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a symbol', Symbol('s')],
    ['a cycle', cycle],
    ['a bigint', { a: 1n }],
    ['a promise', Promise.resolve({ amount: 1 })],
    ['a map', new Map([['a', 1]])],
    ['a set inside', { a: [new Set([1])] }],
    ['a regular expression', /a/],
    ['a buffer of another kind', new ArrayBuffer(1)],
    [
      'a getter that throws',
      Object.defineProperty({}, 'a', { enumerable: true, get: () => fail() }),
    ],
    ['nested too deep', deep],
  ])('returns undefined for %s', (_, value) => {
    expect(canonicalValue(value)).toBeUndefined()
  })

  it('distinguishes bytes from each other and from all other values', () => {
    const bytes = (...all: number[]) => ({ a: Buffer.from(all) })
    expect(canonicalValue(bytes(1, 2))).toBe(canonicalValue({ a: new Uint8Array([1, 2]) }))
    expect(canonicalValue(bytes(1, 2))).not.toBe(canonicalValue(bytes(1, 3)))
    expect(canonicalValue(bytes())).not.toBe(canonicalValue({ a: {} }))
    expect(canonicalValue(Buffer.alloc(5_000_000))?.length).toBeLessThan(100)
  })
})

function fail(): never {
  throw new Error('not to be read')
}
