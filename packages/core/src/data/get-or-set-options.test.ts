import { expect, it } from 'vitest'
import { type GetOrSetOptions, NAMES, readPlan } from './get-or-set-options.ts'

const options = (): GetOrSetOptions => ({ ttlMs: 1_000, jitter: 0.2, waitMs: 10 })

it('options of getOrSet are checked once for equal objects', () => {
  const plan = readPlan(options())
  expect(readPlan(options())).toBe(plan)
  expect(readPlan({ ...options(), waitMs: 20 })).not.toBe(plan)
  expect(readPlan({ ttlMs: 1_000, jitter: 0.2 })).not.toBe(plan)
})

it.each(NAMES)('options of getOrSet are checked again when their owner has changed %s', (name) => {
  const said = options()
  readPlan(said)
  Reflect.set(said, name, 'wrong')
  expect(() => readPlan(said)).toThrow(`getOrSet.${name}`)
})

it('options of getOrSet are checked again after an unknown one is added', () => {
  readPlan(options())
  expect(() => readPlan({ ...options(), tllMs: 1 } as GetOrSetOptions)).toThrow('tllMs')
})

it('options of getOrSet with a list of tags are always checked again', () => {
  const tags = ['a']
  readPlan({ ...options(), tags })
  tags.push('b')
  expect(readPlan({ ...options(), tags }).tags).toEqual(['a', 'b'])
})

it('options of getOrSet are checked again when an unknown one replaces an undefined one', () => {
  readPlan({ ttlMs: 1_000, waitMs: undefined } as unknown as GetOrSetOptions)
  const mistyped = { ttlMs: 1_000, wiatMs: 10 }
  expect(() => readPlan(mistyped)).toThrow('wiatMs')
})

it('options of getOrSet are remembered if they are inherited', () => {
  expect(readPlan(Object.create({ ttlMs: 7 })).ttlMs).toBe(7)
  expect(() => readPlan({} as GetOrSetOptions)).toThrow('getOrSet.ttlMs')
})

it('options of getOrSet are compared by their checked values, even if a getter changes', () => {
  let ttlMs = 1_000
  const { ttlMs: checked } = readPlan({
    get ttlMs() {
      return ttlMs++
    },
  })
  for (const each of [checked, Number(checked) + 1] as number[])
    expect(readPlan({ ttlMs: each }).ttlMs).toBe(each)
})

it('options of getOrSet are checked again if a class or a hidden member has more of them', () => {
  readPlan({ ttlMs: 1_000 })
  class Options {
    readonly ttlMs = 1_000
    get jitter() {
      return 0
    }
  }
  expect(readPlan(new Options()).jitter).toBe(0)
  const hidden = Object.defineProperty({ ttlMs: 1_000 }, 'waitMs', { value: 7 })
  expect(readPlan(hidden).waitMs).toBe(7)
})
