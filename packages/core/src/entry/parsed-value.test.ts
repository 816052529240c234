import { expect, it } from 'vitest'
import { parsedFrom, readValue } from './parsed-value.ts'

const storedOf = (json: string) => {
  const body = Buffer.from(json)
  return { body, parsed: parsedFrom(body) }
}

it('holds the last 1 024 and no more, and again whoever is asked for', () => {
  const first = storedOf('{"a":1}')
  const value = readValue(first)
  for (let i = 1; i < 1_024; i++) storedOf('{}')
  expect(first.parsed.held?.value).toBe(value)
  storedOf('{}')
  expect(first.parsed.held).toBeUndefined()
  // The collector has left it, in this turn.
  expect(readValue(first)).toBe(value)
  expect(first.parsed.held?.value).toBe(value)
})

it('holds none whose text is long', () => {
  const [longest, longer] = [`"${'x'.repeat(4_094)}"`, `"${'x'.repeat(4_095)}"`].map(storedOf)
  expect(longest?.parsed.held).toBeDefined()
  expect(longer?.parsed.held).toBeUndefined()
})
