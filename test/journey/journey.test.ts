// One warm request of each path costs no more files, functions and promises than its budget.

import { beforeAll, describe, expect, it } from 'vitest'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { BUDGETS } from './budgets.ts'
import { type Counted, measure } from './measure.ts'

const { server } = await redisOfFile()
let counted: ReadonlyMap<string, Counted>
beforeAll(async () => {
  counted = await measure(server.url)
}, 180_000)

describe('a warm request', () => {
  it.each(Object.entries(BUDGETS))('costs at most its budget: %s', (name, budget) => {
    const counts = counted.get(name)
    for (const what of ['files', 'functions', 'promises'] as const) {
      expect(counts?.[what], what).toBeLessThanOrEqual(budget[what])
    }
  })

  it('has a budget for each path, and executes the code of the packages', () => {
    expect([...counted.keys()].sort()).toEqual([...Object.keys(BUDGETS)].sort())
    expect(counted.get('getOrSet hit')?.functions).toBeGreaterThan(5)
  })
})
