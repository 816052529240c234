// The counted bytes are the bytes in memory, for each structure with a bound in bytes, as measured
// by the garbage collector. The L1 of the cache has a test of its own (l1-heap.test.ts).

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'

type Measured = Readonly<Record<string, { entries: number; counted: number; grown: number }>>

/** Other memory of a process: compiled code, warm caches. */
const REST = 300 * 1024
const STRUCTURES = [
  'replays',
  'results that could not be stored',
  'results that the memory store holds as they are',
  'values in the memory store',
  'idempotency keys in memory',
]

let measured: Measured
beforeAll(async () => {
  const script = fileURLToPath(new URL('../harness/servers/heap.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script], {
    timeout: 170_000,
    killSignal: 'SIGKILL',
  })
  measured = JSON.parse(stdout)
}, 180_000)

describe.each(STRUCTURES)('%s', (name) => {
  it.each([20, 2_000, 200_000])(
    'take as much memory as they report, with bodies of %i bytes',
    (size) => {
      const { counted, grown, entries } = measured[`${name}, ${size} bytes`] ?? {}
      const per = `${entries} entries, ${grown} bytes for ${counted} counted`
      expect(grown, per).toBeLessThan(Number(counted) * 1.2 + REST)
      expect(grown, per).toBeGreaterThan(Number(counted) * 0.8 - REST)
    },
  )
})
