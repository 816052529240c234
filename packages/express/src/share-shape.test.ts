import { setFlagsFromString } from 'node:v8'
import { runInThisContext } from 'node:vm'
import { expect, it } from 'vitest'
import { shareShape } from './request.ts'

setFlagsFromString('--allow-natives-syntax')
const hasHiddenClass: (object: object) => boolean = runInThisContext(
  '(object) => %HasFastProperties(object)',
)

const newObject = () => {
  const prototype = { inherited: 1 }
  return Object.assign(Object.create(prototype), { b: 1, _events: {}, a: 2 })
}

it('shareShape keeps the properties of an object and its prototype', () => {
  const object = newObject()
  const [events, prototype] = [object._events, Object.getPrototypeOf(object)]
  shareShape(object)
  expect(Reflect.ownKeys(object).toSorted()).toEqual(['_events', 'a', 'b'])
  expect(object).toMatchObject({ b: 1, a: 2, inherited: 1 })
  expect(object._events).toBe(events)
  expect(Object.getPrototypeOf(object)).toBe(prototype)
})

it('shareShape makes a dictionary on Node 20 and 22, where Express is faster with one', () => {
  const object = newObject()
  expect(hasHiddenClass(object)).toBe(true)
  shareShape(object)
  expect(hasHiddenClass(object)).toBe(Number.parseInt(process.versions.node, 10) >= 24)
})
