// One warm request of each path allocates no more heap than its budget (test/journey/budgets.ts).

import { beforeAll, describe, expect, it } from 'vitest'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { HEAP_BUDGETS } from '../journey/budgets.ts'
import { measureHeap } from '../journey/measure.ts'

const { server } = await redisOfFile()
let allocated: ReadonlyMap<string, number>
beforeAll(async () => {
  allocated = await measureHeap(server.url, Object.keys(HEAP_BUDGETS))
}, 180_000)

describe('a warm request', () => {
  it.each(Object.entries(HEAP_BUDGETS))(
    'allocates no more heap than its budget: %s',
    (name, most) => {
      expect(allocated.get(name)).toBeLessThanOrEqual(most)
    },
  )
})
