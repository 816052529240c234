// Bodies of hits as layers in front see them: of the kind that the handler set, with the same
// bytes.

import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { bodyOfKind, isStableJson } from './body.ts'

const jsonOf = (value: unknown) => Buffer.from(JSON.stringify(value))

describe('the body of a JSON hit', () => {
  test('is parsed again for each hit', () => {
    const bytes = jsonOf({ list: [1] })
    const first = bodyOfKind(bytes, 'json') as { list: number[] }
    first.list.push(2)
    expect(bodyOfKind(bytes, 'json')).toEqual({ list: [1] })
  })

  test('does not inherit from a __proto__ member of the JSON text', () => {
    const body = bodyOfKind(Buffer.from('{"__proto__":{"admin":true}}'), 'json')
    expect(Reflect.get(body as object, 'admin')).toBeUndefined()
  })

  test.each(['{"a":', '', '"text"', 'null', '\xff'])(
    'is a Buffer if the store returns %j, which is no JSON object',
    (text) => {
      const bytes = Buffer.from(text, 'latin1')
      expect(bodyOfKind(bytes, 'json')).toEqual(bytes)
    },
  )

  test('is not stored as JSON if parsing would change a number', () => {
    expect(isStableJson('{"id":12345678901234567890}')).toBe(false)
    expect(isStableJson('{"a":1.0}')).toBe(false)
  })
})

describe('the body of a hit', () => {
  test('is a string if the handler set a string and the bytes are UTF-8, and otherwise a Buffer', () => {
    for (const text of ['', '\ufeffé<p>', '\0'])
      expect(bodyOfKind(Buffer.from(text), 'string')).toBe(text)
    const bytes = Buffer.from([0x61, 0xff])
    expect(bodyOfKind(bytes, 'string')).toEqual(bytes)
  })

  test('is a stream of copied bytes if the handler set a stream', async () => {
    const bytes = Buffer.from('abc')
    const stream = bodyOfKind(bytes, 'stream') as Readable
    expect(stream).toBeInstanceOf(Readable)
    for await (const chunk of stream) chunk.fill(0)
    expect(bytes.toString()).toBe('abc')
    expect(await (bodyOfKind(Buffer.alloc(0), 'stream') as Readable).toArray()).toEqual([])
  })

  test('is a copied Buffer if the kind of the original body is unknown', () => {
    const bytes = Buffer.from('abc')
    expect(bodyOfKind(bytes, undefined)).toEqual(bytes)
    expect(bodyOfKind(bytes, undefined)).not.toBe(bytes)
  })
})
