// Calls with many keys in two processes at once.

import { it } from 'vitest'
import { runManyPairs } from '../harness/many-pairs.ts'

it('ends 600 random pairs of overlapping calls in two processes, each key filled once', async () => {
  await runManyPairs(600, 60_000)
}, 120_000)
