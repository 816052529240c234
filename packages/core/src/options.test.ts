import { describe, expect, it } from 'vitest'
import {
  bytes,
  callback,
  checkCalled,
  checkNames,
  choice,
  durationMs,
  flag,
  LONGEST_MS,
  number,
  readOptions,
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

describe('checkNames()', () => {
  it('accepts an empty object', () => {
    expect(checkNames('f', undefined, KNOWN)).toEqual({})
  })

  it.each([null, 5, 'ttlMs', true, [], ['ttlMs'], () => {}, 1n, Symbol('s')])(
    'rejects %o, which is not an object of options',
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

  const OURS = ['ttlMs', 'staleWhileRevalidateMs', 'staleIfErrorMs', 'stampede', 'key']
  it.each([
    ['maxAge', 'ttlMs, in milliseconds'],
    ['maxage', 'ttlMs, in milliseconds'],
    ['max-age', 'ttlMs, in milliseconds'],
    ['swr', 'staleWhileRevalidateMs, in milliseconds'],
    ['grace', 'staleIfErrorMs, in milliseconds'],
    ['store', 'stampede: createStampede({ store })'],
  ])('names for %s, an option of other caches, its use: %s', (name, use) => {
    expect(refusal(() => checkNames('f', { [name]: 5 }, OURS))).toBe(
      `f.${name}: received 5; there is no such option; use ${use}`,
    )
  })

  it.each([
    ['maxAge', 'ttlMs is an option of stampedeCache and getOrSet'],
    ['stale', 'staleWhileRevalidateMs is an option of stampedeCache and getOrSet'],
    ['store', 'store is an option of createStampede'],
    ['keyPrefix', 'prefix is an option of the store: redisStore(redis, { prefix })'],
  ])('says where %s belongs if the function has no such option', (name, fix) => {
    expect(refusal(() => checkNames('f', { [name]: 5 }, ['state', 'query']))).toBe(
      `f.${name}: received 5; there is no such option; ${fix}`,
    )
  })

  it.each(['zip', 'constructor', 'toString', ''])(
    'lists the options if none is similar to %s',
    (name) => {
      expect(refusal(() => checkNames('f', { [name]: true }, KNOWN))).toBe(
        `f.${name}: received true; there is no such option; known options: ${KNOWN.join(', ')}`,
      )
    },
  )

  it('rejects an unknown name even if its value is undefined', () => {
    expect(refusal(() => checkNames('f', { ttl: undefined }, KNOWN))).toContain('ttlMs')
  })

  it('rejects a name that would reach the prototype', () => {
    const options = JSON.parse('{"__proto__": 1}')
    expect(refusal(() => checkNames('f', options, KNOWN))).toContain('f.__proto__: received 1')
  })
})

describe('checkCalled()', () => {
  it.each([
    ['a request', { method: 'GET', headers: {} }],
    ['a Koa context', { req: {}, res: {} }],
  ])('rejects %s', (_, options) => {
    expect(refusal(() => checkCalled('f', options, 'f({ ttlMs: 1 })'))).toBe(
      'f: received an object (Object); it is mounted without being called; mount f({ ttlMs: 1 })',
    )
  })

  it.each([undefined, null, {}, { method: 'GET' }, { ttlMs: 1, headers: ['x'] }, 'GET'])(
    'leaves %o to the check of options',
    (options) => {
      checkCalled('f', options, '')
    },
  )
})

describe('a number option', () => {
  const rule = { min: 1, max: 10, unit: 'apples' }

  it('is the default when it is undefined', () => {
    expect(number(7, rule)('f.n', undefined)).toBe(7)
    expect(number(undefined, rule)('f.n', undefined)).toBeUndefined()
  })

  it.each([1, 2, 10])('may be %d', (n) => expect(number(undefined, rule)('f.n', n)).toBe(n))

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
    expect(refusal(() => number(undefined, rule)('f.n', n))).toBe(
      `f.n: received ${shown}; use a whole number of apples from 1 to 10`,
    )
  })

  it('may have a fraction if the rule allows it', () => {
    const fraction = { ...rule, min: 0, max: 0.5, fraction: true }
    expect(number(undefined, fraction)('f.n', 0.25)).toBe(0.25)
    expect(refusal(() => number(undefined, fraction)('f.n', 0.51))).toContain(
      'use a number from 0 to 0.5, as a multiple of apples',
    )
  })
})

describe('a duration option', () => {
  it('is at most a year, so that dates keep their precision', () => {
    expect(durationMs(undefined)('f.ms', LONGEST_MS)).toBe(LONGEST_MS)
    expect(refusal(() => durationMs(undefined)('f.ms', LONGEST_MS + 1))).toContain(
      `f.ms: received ${LONGEST_MS + 1}; use a whole number of milliseconds from 0 to ${LONGEST_MS}`,
    )
  })

  it('has the least length of its rule', () => {
    expect(durationMs(undefined)('f.ms', 0)).toBe(0)
    expect(refusal(() => durationMs(undefined, 1)('f.ms', 0))).toContain('from 1 to')
  })
})

describe('a size option', () => {
  it('is a whole number of bytes', () => {
    expect(bytes(5)('f.size', 0)).toBe(0)
    expect(bytes(5)('f.size', undefined)).toBe(5)
    expect(refusal(() => bytes(5)('f.size', '1mb'))).toContain(
      'f.size: received "1mb"; use a whole number of bytes',
    )
  })
})

describe('a boolean option', () => {
  it.each([true, false])('may be %o', (on) => {
    expect(flag(!on)('f.on', on)).toBe(on)
    expect(flag(on)('f.on', undefined)).toBe(on)
  })

  it.each([0, 1, 'true', null, {}])('may not be %o', (on) => {
    expect(refusal(() => flag(true)('f.on', on))).toMatch(/^f\.on: .+; use true or false$/)
  })
})

describe('a function option', () => {
  it('is returned unchanged', () => {
    const fn = () => {}
    expect(callback()('f.fn', fn)).toBe(fn)
    expect(callback()('f.fn', undefined)).toBeUndefined()
  })

  it.each([null, 'key', {}, 5])('may not be %o', (fn) => {
    expect(refusal(() => callback()('f.fn', fn))).toMatch(/^f\.fn: .+; use a function$/)
  })
})

describe('a choice option', () => {
  it.each(['a', 'b'] as const)('may be %o', (value) => {
    expect(choice('a', 'b')('f.value', value)).toBe(value)
    expect(choice(value, 'c')('f.value', undefined)).toBe(value)
  })

  it.each(['A', '', null, true, ['a']])('may not be %o', (value) => {
    expect(refusal(() => choice('a', 'b')('f.value', value))).toMatch(
      /^f\.value: .+; use one of 'a', 'b'$/,
    )
  })
})

describe('a list of strings', () => {
  it('is an array, which may be empty', () => {
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
  ])('may not be %o, and the error names the invalid member', (value, named) => {
    expect(refusal(() => readStrings('f.names', value))).toBe(
      `f.names${named}; use an array of non-empty strings`,
    )
  })
})

describe('a table of options', () => {
  const TABLE = { ms: durationMs(5), on: flag(false) }

  it('returns each option or its default', () => {
    expect(readOptions('f', undefined, TABLE)).toEqual({ ms: 5, on: false })
    expect(readOptions('f', { on: true }, TABLE)).toEqual({ ms: 5, on: true })
  })

  it('names a rejected option, and an unknown name', () => {
    expect(refusal(() => readOptions('f', { ms: 'x' }, TABLE))).toContain('f.ms: received "x"')
    expect(refusal(() => readOptions('f', { retries: 1 }, TABLE))).toContain(
      'known options: ms, on',
    )
  })
})
