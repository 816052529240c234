import { describe, expect, it } from 'vitest'
import {
  checkNames,
  LONGEST_MS,
  readBoolean,
  readBytes,
  readChoice,
  readDurationMs,
  readFunction,
  readNumber,
  readStrings,
} from './options.ts'

const KNOWN = ['ttlMs', 'staleIfErrorMs', 'key', 'waitMs', 'query']

function refusal(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    expect(error).toMatchObject({ name: 'StampedeError', code: 'ERR_STAMPEDE_OPTION' })
    return (error as Error).message
  }
  throw new Error('it was accepted')
}

describe('checkNames', () => {
  it('takes no options for an empty object', () => {
    expect(checkNames('f', undefined, KNOWN)).toEqual({})
  })

  it.each([null, 5, 'ttlMs', true, [], ['ttlMs'], () => {}, 1n, Symbol('s')])(
    'refuses %o, which is no object of options',
    (value) => {
      expect(refusal(() => checkNames('f', value, KNOWN))).toMatch(
        /^f: received .+; pass an object of options$/,
      )
    },
  )

  it.each([
    ['ttl', 'ttlMs'],
    ['ttlms', 'ttlMs'],
    ['TTLMS', 'ttlMs'],
    ['staleIfError', 'staleIfErrorMs'],
    ['stale_if_error_ms', 'staleIfErrorMs'],
    ['keys', 'key'],
    ['qurey', 'query'],
    ['wait', 'waitMs'],
  ])('suggests for %s the option %s', (name, near) => {
    expect(refusal(() => checkNames('f', { [name]: 5 }, KNOWN))).toBe(
      `f.${name}: received 5; there is no such option; did you mean ${near}?`,
    )
  })

  it.each(['compress', 'constructor', 'toString', ''])(
    'lists what there is when nothing is near %s',
    (name) => {
      expect(refusal(() => checkNames('f', { [name]: true }, KNOWN))).toBe(
        `f.${name}: received true; there is no such option; known options: ${KNOWN.join(', ')}`,
      )
    },
  )

  it('refuses an unknown name even when its value is undefined', () => {
    expect(refusal(() => checkNames('f', { ttl: undefined }, KNOWN))).toContain('ttlMs')
  })

  it('refuses a name that would reach the prototype', () => {
    const options = JSON.parse('{"__proto__": 1}')
    expect(refusal(() => checkNames('f', options, KNOWN))).toContain('f.__proto__: received 1')
  })
})

describe('a number', () => {
  const rule = { min: 1, max: 10, unit: 'apples' }

  it('is undefined when it was left out or given as undefined', () => {
    expect(readNumber('f', {}, 'n', rule)).toBeUndefined()
    expect(readNumber('f', { n: undefined }, 'n', rule)).toBeUndefined()
  })

  it.each([1, 2, 10])('may be %d', (n) => expect(readNumber('f', { n }, 'n', rule)).toBe(n))

  it.each([
    [0, '0'],
    [11, '11'],
    [-1, '-1'],
    [1.5, '1.5'],
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    ['5', '"5"'],
    [null, 'null'],
    [5n, '5n'],
    [[5], 'an array of 1'],
    [new Date(5), 'an object (Date)'],
  ])('may not be %o', (n, shown) => {
    expect(refusal(() => readNumber('f', { n }, 'n', rule))).toBe(
      `f.n: received ${shown}; use a whole number of apples from 1 to 10`,
    )
  })

  it('may have a fraction where the rule says so', () => {
    const fraction = { ...rule, min: 0, max: 0.5, fraction: true }
    expect(readNumber('f', { n: 0.25 }, 'n', fraction)).toBe(0.25)
    expect(refusal(() => readNumber('f', { n: 0.51 }, 'n', fraction))).toContain(
      'use a number from 0 to 0.5, times apples',
    )
  })
})

describe('a duration', () => {
  it('is at most a year, and never so long that dates lose precision', () => {
    expect(readDurationMs('f', { ms: LONGEST_MS }, 'ms')).toBe(LONGEST_MS)
    expect(refusal(() => readDurationMs('f', { ms: LONGEST_MS + 1 }, 'ms'))).toContain(
      `f.ms: received ${LONGEST_MS + 1}; use a whole number of milliseconds from 0 to ${LONGEST_MS}`,
    )
  })

  it('has the least length it was asked for', () => {
    expect(readDurationMs('f', { ms: 0 }, 'ms')).toBe(0)
    expect(refusal(() => readDurationMs('f', { ms: 0 }, 'ms', 1))).toContain('from 1 to')
  })
})

describe('a size', () => {
  it('is a whole number of bytes', () => {
    expect(readBytes('f', { size: 0 }, 'size')).toBe(0)
    expect(readBytes('f', {}, 'size')).toBeUndefined()
    expect(refusal(() => readBytes('f', { size: '1mb' }, 'size'))).toContain(
      'f.size: received "1mb"; use a whole number of bytes',
    )
  })
})

describe('a boolean', () => {
  it.each([true, false, undefined])('may be %o', (on) => {
    expect(readBoolean('f', { on }, 'on')).toBe(on)
  })

  it.each([0, 1, 'true', null, {}])('may not be %o', (on) => {
    expect(refusal(() => readBoolean('f', { on }, 'on'))).toMatch(/^f\.on: .+; use true or false$/)
  })
})

describe('a function', () => {
  it('is returned as it is', () => {
    const fn = () => {}
    expect(readFunction('f', { fn }, 'fn')).toBe(fn)
    expect(readFunction('f', { fn: undefined }, 'fn')).toBeUndefined()
  })

  it.each([null, 'key', {}, 5])('may not be %o', (fn) => {
    expect(refusal(() => readFunction('f', { fn }, 'fn'))).toMatch(/^f\.fn: .+; use a function$/)
  })
})

describe('a choice', () => {
  it.each(['a', 'b', undefined])('may be %o', (value) => {
    expect(readChoice('f', { value }, 'value', ['a', 'b'])).toBe(value)
  })

  it.each(['A', '', null, true, ['a']])('may not be %o', (value) => {
    expect(refusal(() => readChoice('f', { value }, 'value', ['a', 'b']))).toMatch(
      /^f\.value: .+; use one of 'a', 'b'$/,
    )
  })
})

describe('strings', () => {
  it('are an array, perhaps an empty one', () => {
    expect(readStrings('f.names', ['a', 'b'])).toEqual(['a', 'b'])
    expect(readStrings('f.names', [])).toEqual([])
  })

  it.each([undefined, null, 'a', { 0: 'a', length: 1 }])('may not be %o', (value) => {
    expect(refusal(() => readStrings('f.names', value))).toMatch(
      /^f\.names: .+; use an array of non-empty strings$/,
    )
  })

  it.each([
    [[''], '[0]: received ""'],
    [['a', 5], '[1]: received 5'],
    [[undefined], '[0]: received undefined'],
  ])('may not be %o: what is none is named', (value, named) => {
    expect(refusal(() => readStrings('f.names', value))).toBe(
      `f.names${named}; use an array of non-empty strings`,
    )
  })
})
