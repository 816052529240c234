// Random JSON bodies: a hit sends the bytes of its miss.

import { runs } from '@stampede/core/testing'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bodyOfKind, isStableJson } from './body.ts'

const jsonOf = (value: unknown) => Buffer.from(JSON.stringify(value))

describe('the body of a JSON hit', () => {
  test('has the same bytes as the body of the miss', () => {
    const odd = fc.constantFrom(-0, 1e21, 1e-7, 2 ** 53 + 2, '\ud800', '\udfff"', '__proto__', '')
    const keys = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('__proto__', '10', 'a'))
    const value = fc.letrec((tie) => ({
      any: fc.oneof(fc.jsonValue({ noUnicodeString: false }), odd, tie('array'), tie('object')),
      array: fc.array(tie('any'), { maxLength: 4 }),
      object: fc.array(fc.tuple(keys, tie('any')), { maxLength: 4 }).map((entries) => {
        const object = {}
        for (const [key, member] of entries) {
          const own = { value: member, enumerable: true, configurable: true, writable: true }
          Object.defineProperty(object, key, own)
        }
        return object
      }),
    })).object
    fc.assert(
      fc.property(value, (object) => {
        const bytes = jsonOf(object)
        expect(isStableJson(bytes.toString())).toBe(true)
        const body = bodyOfKind(bytes, 'json')
        expect(Buffer.isBuffer(body)).toBe(false)
        expect(jsonOf(body)).toEqual(bytes)
      }),
      runs(2_000),
    )
  })
})
