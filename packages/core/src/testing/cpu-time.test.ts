import { expect, it } from 'vitest'
import { isLinear } from './cpu-time.ts'
import { repeated } from './hostile.ts'

const textOf = (length: number) => repeated('ab ', length)

/** Reads each character, and after each of them `again` characters. */
function readAgain(text: string, again: number): number {
  let sum = 0
  for (let at = 0; at < text.length; at++)
    for (let next = at; next <= at + again && next < text.length; next++)
      sum += text.charCodeAt(next)
  return sum
}

it('isLinear() recognises linear time, also if each step is expensive', () => {
  const read = (text: string) => readAgain(text, 100)
  expect(isLinear(textOf, read, 16 * 1024)).toBe(true)
})

it('isLinear() recognises quadratic time', () => {
  const read = (text: string) => readAgain(text, text.length)
  expect(isLinear(textOf, read, 12 * 1024)).toBe(false)
  expect(isLinear(textOf, (text) => /[ab ]+$x/.test(text), 12 * 1024)).toBe(false)
})
