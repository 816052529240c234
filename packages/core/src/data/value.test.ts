import { describe, expect, it } from 'vitest'
import { UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { decodeValue, encodeValue } from './value.ts'

describe('a value of getOrSet', () => {
  it('is deeply frozen, and the same object for all callers', () => {
    const stored = encodeValue('k', { list: [{ deep: { a: 1 } }] })
    const value = decodeValue<{ list: Array<{ deep: object }> }>(stored)
    expect(decodeValue(stored)).toBe(value)
    expect(Object.isFrozen(value)).toBe(true)
    expect(Object.isFrozen(value.list)).toBe(true)
    expect(Object.isFrozen(value.list[0]?.deep)).toBe(true)
  })

  it('may have an array of a million members', () => {
    const long = Array.from({ length: 1_000_000 }, () => 1)
    expect(decodeValue<number[]>(encodeValue('k', long))).toHaveLength(1_000_000)
  })

  it('may be nested deeper than the call stack if another process wrote it', () => {
    const body = Buffer.from(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)
    expect(
      Object.isFrozen(
        decodeValue({ type: 'value', encoding: 'json', body, provenance: UNKNOWN_PROVENANCE }),
      ),
    ).toBe(true)
  })

  it('may have members with names of prototype members', () => {
    const text = '{"__proto__":{"a":1},"constructor":2}'
    const value = decodeValue<object>(encodeValue('k', JSON.parse(text)))
    expect(JSON.stringify(value)).toBe(text)
    expect(value).not.toHaveProperty('a')
  })

  it.each([
    [undefined, 'undefined was returned, which JSON cannot represent; return null'],
    [() => 1, 'JSON cannot represent a function; call it, or leave it out'],
    [Symbol('s'), 'JSON cannot represent a symbol; use a string'],
    [{ toJSON: () => undefined }, 'the toJSON() of the object returns a value that JSON cannot'],
    [1n, 'the value cannot be written as JSON'],
  ])('may not be %o', (value, problem) => {
    expect(() => encodeValue('k', value)).toThrow(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_VALUE',
        message: expect.stringContaining(`k: ${problem}`),
      }),
    )
  })

  it('may not contain itself', () => {
    const loop: Record<string, unknown> = {}
    loop.loop = loop
    expect(() => encodeValue('k', loop)).toThrow('cannot be written as JSON')
  })
})

describe('bytes as a value of getOrSet', () => {
  it('are copied on the way in and on the way out', () => {
    const given = new Uint8Array([1, 2])
    const stored = encodeValue('k', given)
    given[0] = 9
    const read = decodeValue<Buffer>(stored)
    read[1] = 9
    expect([...decodeValue<Buffer>(stored)]).toEqual([1, 2])
  })

  it('are stored without the rest of their buffer', () => {
    const stored = encodeValue('k', Buffer.from('abcdef').subarray(1, 3))
    expect(String(decodeValue(stored))).toBe('bc')
    expect(stored.body.buffer.byteLength).toBeLessThan(10)
  })
})
