import { expect, it } from 'vitest'
import { type ParsedValue, parsedFrom, readValue } from './parsed-value.ts'

const body = Buffer.from('{"a":1}')

it('reads one object for all callers, and nobody can change it', () => {
  const stored = { body, parsed: parsedFrom(body) }
  const value = readValue(stored)
  expect(readValue(stored)).toBe(value)
  expect(Object.isFrozen(value)).toBe(true)
})

it('reads the text again if the object was collected', () => {
  const collected = { deref: () => undefined } as unknown as ParsedValue
  const stored = { body, parsed: collected }
  const value = readValue(stored)
  expect(value).toEqual({ a: 1 })
  expect(readValue(stored)).toBe(value)
})
