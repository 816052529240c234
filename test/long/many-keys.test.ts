// The test of test/fleet/many-keys.test.ts at full size.

import { it } from 'vitest'
import { runManyPairs } from '../harness/many-pairs.ts'

it('ends 10 000 random pairs of overlapping calls in two processes, each key filled once', async () => {
  await runManyPairs(10_000, 600_000)
}, 900_000)
