import { describe, expect, it } from 'vitest'
import { originFailed, StampedeError, show, storeUnavailable } from './errors.ts'

describe('an error', () => {
  it('has a code to test, a name, and its cause', () => {
    const cause = new Error('socket closed')
    const error = storeUnavailable('redis', 'lookup', cause)
    expect(error).toBeInstanceOf(StampedeError)
    expect(error).toMatchObject({
      name: 'StampedeError',
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      message: 'redis lookup: socket closed',
      cause,
    })
  })

  it('of a store left alone by the breaker says so', () => {
    expect(storeUnavailable('redis', 'lookup').message).toBe('redis lookup: circuit open')
  })

  it('shows its key quoted and short', () => {
    expect(originFailed('k"', 'down').message).toBe('the origin of "k\\"" failed: down')
    expect(originFailed('k'.repeat(500), 'down').message.length).toBeLessThan(120)
  })
})

describe('a received value', () => {
  it.each([
    ['5', '"5"'],
    [5, '5'],
    [-0, '0'],
    [5n, '5n'],
    [undefined, 'undefined'],
    [null, 'null'],
    [Symbol('s'), 'Symbol(s)'],
    [[1, 2], 'an array of 2'],
    [{}, 'an object (Object)'],
    [Object.create(null), 'an object (null prototype)'],
    [new Map(), 'an object (Map)'],
    [function named() {}, 'function named'],
    [(() => () => {})(), 'function (anonymous)'],
    ['x'.repeat(81), `"${'x'.repeat(77)}..."`],
  ])('is shown so that it can be told apart', (value, text) => expect(show(value)).toBe(text))

  it('is shown on one line', () => expect(show('a\nb')).toBe('"a\\nb"'))
})
