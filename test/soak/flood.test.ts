// A flood of requests, no two of them equal, fills only structures with a bound, as measured by the
// garbage collector.

import { beforeAll, describe, expect, it } from 'vitest'
import { measured } from '../harness/measured.ts'

interface Measured {
  readonly budget: number
  /** MiB kept, by kind of flood. */
  readonly kept: Readonly<Record<string, number>>
  readonly l1: { readonly bytes: number }
  readonly active: { readonly flights: number; readonly leases: number }
  readonly unleased: { readonly running: number; readonly queued: number }
  readonly keyed: { readonly running: number; readonly unstored: number }
}

/** `npm run fuzz:input` runs more of them. */
const { STAMPEDE_FLOOD_KEYS: KEYS = '60000', STAMPEDE_FLOOD_REQUESTS: REQUESTS = '1000' } =
  process.env

let found: Measured
beforeAll(async () => {
  found = await measured('flood.mjs', { KEYS, REQUESTS })
}, 1_200_000)

describe('a process under a flood of different requests', () => {
  it.each([
    // With full structures, a flood must not add anything.
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
    // A purge of a 4 KB subject is stored by its hash.
    ['unsafe', 3],
    // The response is kept for each key until its retention ends.
    ['orders', 6],
  ])('stores next to nothing of the requests in memory: %s', (name, mebibytes) => {
    expect(found.kept[name], JSON.stringify(found.kept)).toBeLessThan(mebibytes)
  })

  it('has no work under way afterwards, and its L1 within the budget', () => {
    const { budget, l1, active, unleased, keyed } = found
    expect(l1.bytes).toBeLessThanOrEqual(budget)
    expect(active).toEqual({ flights: 0, leases: 0 })
    expect(unleased).toEqual({ running: 0, queued: 0 })
    expect(keyed).toMatchObject({ running: 0, unstored: 0 })
  })
})
