import { expect, it } from 'vitest'
import { Recent } from './recent.ts'

it('forgets the oldest when it is full, and none for what it knows already', () => {
  const recent = new Recent<string, number>(2)
  recent.set('a', 1)
  recent.set('b', 2)
  recent.set('a', 3)
  expect([recent.get('a'), recent.get('b')]).toEqual([3, 2])
  recent.set('c', 4)
  expect([recent.get('a'), recent.get('b'), recent.get('c')]).toEqual([undefined, 2, 4])
})
