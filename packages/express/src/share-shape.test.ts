import { expect, it } from 'vitest'
import { shareShape } from './request.ts'

it('shareShape keeps the properties of an object, their order and its prototype', () => {
  const prototype = { inherited: 1 }
  const object = Object.assign(Object.create(prototype), { b: 1, a: 2 })
  shareShape(object)
  expect(Reflect.ownKeys(object)).toEqual(['b', 'a'])
  expect(object).toMatchObject({ b: 1, a: 2, inherited: 1 })
  expect(Object.getPrototypeOf(object)).toBe(prototype)
})
