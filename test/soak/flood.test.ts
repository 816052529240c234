// Whoever asks for something else each time fills nothing but what has a bound: as the garbage collector finds it.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'

interface Measured {
  readonly budget: number
  /** MiB, by kind of flood. */
  readonly kept: Readonly<Record<string, number>>
  readonly l1: { readonly bytes: number }
  readonly active: { readonly flights: number; readonly leases: number }
  readonly unleased: { readonly running: number; readonly queued: number }
  readonly keyed: { readonly running: number; readonly unstored: number }
}

/** More for `npm run fuzz:input`. */
const { STAMPEDE_FLOOD_KEYS: KEYS = '60000', STAMPEDE_FLOOD_REQUESTS: REQUESTS = '1000' } =
  process.env

let measured: Measured
beforeAll(async () => {
  const script = fileURLToPath(new URL('../harness/servers/flood.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script], {
    env: { ...process.env, NODE_OPTIONS: '', KEYS, REQUESTS },
    timeout: 590_000,
    killSignal: 'SIGKILL',
  })
  measured = JSON.parse(stdout)
}, 600_000)

describe('a process that is never asked for the same thing twice', () => {
  it.each([
    // Where everything is full already, nothing is added.
    ['keys', 1.5],
    ['failures', 1.5],
    ['pages', 1.5],
    ['variants', 1.5],
    ['tagged', 1.5],
    ['none', 1.5],
    ['cookies', 1.5],
    // Reports of 503s, and their back-offs.
    ['errors', 3],
    ['locks', 1.5],
    ['abandoned', 1.5],
    // Purges by megabytes of text.
    ['huge', 3],
    // A purge is remembered by its subject: of 4 KB, its hash.
    ['unsafe', 3],
    // Its answer is promised to each key.
    ['orders', 6],
  ])('keeps next to nothing of %s', (name, mebibytes) => {
    expect(measured.kept[name], JSON.stringify(measured.kept)).toBeLessThan(mebibytes)
  })

  it('has nothing under way, and its memory tier within the budget', () => {
    const { budget, l1, active, unleased, keyed } = measured
    expect(l1.bytes).toBeLessThanOrEqual(budget)
    expect(active).toEqual({ flights: 0, leases: 0 })
    expect(unleased).toEqual({ running: 0, queued: 0 })
    expect(keyed).toEqual({ running: 0, unstored: 0 })
  })
})
