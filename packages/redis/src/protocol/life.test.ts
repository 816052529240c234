import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readLife } from './life.ts'

const read = (text: string) => readLife(Buffer.from(text))

describe('the life of an entry', () => {
  it('is read from its record', () => {
    expect(
      read('1795307491160000 1795307491160001 1795307491160 1795307499160 2000 3000 0'),
    ).toEqual({
      stored: 1795307491160000,
      fence: 1795307491160001,
      made: 1795307491160,
      fresh: 1795307499160,
      swr: 2000,
      sie: 3000,
      keep: 0,
    })
  })

  it.each([
    ['nothing', ''],
    ['a part too few', '1 2 3 4 5 6'],
    ['a part too many', '1 2 3 4 5 6 7 8'],
    ['an empty part', '1 2 3  5 6 7'],
    ['a space before', ' 1 2 3 4 5 6 7'],
    ['a space after', '1 2 3 4 5 6 7 '],
    ['a sign', '1 2 3 -4 5 6 7'],
    ['a fraction', '1 2 3 4.5 5 6 7'],
    ['an exponent', '1 2 3 1e9 5 6 7'],
    ['a word', '1 2 3 inf 5 6 7'],
    ['a number that is not exact', '1 2 3 99999999999999999 5 6 7'],
  ])('with %s is none', (_what, text) => {
    expect(read(text)).toBeUndefined()
  })

  it.each([null, undefined, 'text', 7, []])('that is no bytes (%s) is none', (value) => {
    expect(readLife(value)).toBeUndefined()
  })

  it('is what a pattern makes of it', () => {
    const part = fc.oneof(fc.nat(), fc.constantFrom('', 'x', '-1', '007', '9007199254740992'))
    const parts = fc.array(part, { minLength: 6, maxLength: 8 })
    const whole = /^\d+( \d+){6}$/
    fc.assert(
      fc.property(parts, (values) => {
        const text = values.join(' ')
        const life = read(text)
        const numbers = text.split(' ').map(Number)
        const isOurs = whole.test(text) && numbers.every(Number.isSafeInteger)
        expect(life && Object.values(life)).toEqual(isOurs ? numbers : undefined)
      }),
    )
  })
})
