import { expect, it } from 'vitest'
import { type ParsedValue, parsedFrom, readPromise, readValue } from './parsed-value.ts'

const body = Buffer.from('{"a":1}')

it.each([true, false])(
  'a parsed value is one object for all callers, which cannot be changed (kept: %s)',
  (isKept) => {
    const stored = { body, parsed: parsedFrom(body, isKept) }
    const value = readValue(stored)
    expect(readValue(stored)).toBe(value)
    expect(Object.isFrozen(value)).toBe(true)
  },
)

it('a parsed value is parsed again if it was collected', () => {
  const collected: ParsedValue = { deref: () => undefined }
  const stored = { body, parsed: collected }
  const value = readValue(stored)
  expect(value).toEqual({ a: 1 })
  expect(readValue(stored)).toBe(value)
})

it.each([true, false])(
  'a parsed value is one promise of an object for all callers (kept: %s)',
  async (isKept) => {
    const stored = { body, parsed: parsedFrom(body, isKept) }
    const promise = readPromise(stored)
    expect(readPromise(stored)).toBe(promise)
    expect(await promise).toBe(readValue(stored))
  },
)
