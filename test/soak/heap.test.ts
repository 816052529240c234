// The counted bytes are the bytes in memory, for each structure with a bound in bytes, as measured
// by the garbage collector.

import { beforeAll, describe, expect, it } from 'vitest'
import { measured } from '../harness/measured.ts'
import { startRedis } from '../harness/redis-server.ts'

type Measured = Readonly<Record<string, { entries: number; counted: number; grown: number }>>

/** Other memory of a process: compiled code, warm caches. */
const REST = 300 * 1024
const STRUCTURES = [
  'replays',
  'results that could not be stored',
  'results that the memory store holds as they are',
  'values in the memory store',
  'values in the L1 before Redis',
  'pages in the L1 before Redis',
  'idempotency keys in memory',
]

let found: Measured
beforeAll(async () => {
  await using server = await startRedis()
  found = await measured('heap.mjs', { REDIS_URL: server.url })
}, 1_200_000)

describe.each(STRUCTURES)('%s', (name) => {
  it.each([20, 2_000, 200_000])(
    'take as much memory as they report, with bodies of %i bytes',
    (size) => {
      const { counted, grown, entries } = found[`${name}, ${size} bytes`] ?? {}
      const per = `${entries} entries, ${grown} bytes for ${counted} counted`
      expect(grown, per).toBeLessThan(Number(counted) * 1.2 + REST)
      expect(grown, per).toBeGreaterThan(Number(counted) * 0.8 - REST)
    },
  )
})
