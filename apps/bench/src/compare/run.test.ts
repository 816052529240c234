// Small runs of the benchmark, with processes: checks what they count, and no times.
import { beforeAll, describe, expect, it } from 'vitest'
import { blockedMs, watchBlocking } from './held-origin.ts'
import type { OpenRow } from './run-open.ts'
import type { OpenScenario } from './scenarios.ts'

let runOpen: typeof import('./run-open.ts')['runOpen']
beforeAll(async () => {
  // Child processes run compiled code. `npm run bench:check` has just compiled it.
  const compiled = new URL('../../dist/compare/run-open.js', import.meta.url).href
  runOpen = (await import(/* @vite-ignore */ compiled)).runOpen
})

const quiet = { ttlMs: 60_000, staleMs: 0, troubles: [], title: '' }
const requests = (key: (n: number) => string) => () =>
  Array.from({ length: 40 }, (_, n) => ({ atMs: n, key: key(n) }))
const scenarios: OpenScenario[] = [
  { ...quiet, id: 'burst', originMs: 100, arrivals: requests(() => 'cold') },
  { ...quiet, id: 'once', originMs: 1, arrivals: requests((n) => `once-${n}`) },
]

describe('a fleet of the benchmark', () => {
  it('counts one origin call per cold burst for Stampede, and one for each new key', async () => {
    const peers = [{ id: 'stampede', name: 'Stampede' }]
    const rows = await runOpen({ peers, scenarios, processes: 2, rounds: 1 })
    const figures = ({ scenario, originCalls, requests: sent, failed }: OpenRow) =>
      [scenario, originCalls.median, sent, failed] as const
    expect(rows.map(figures)).toEqual([
      ['burst', 1, 40, 0],
      ['once', 40, 40, 0],
    ])
    for (const { p50, p99 } of rows) expect(p99).toBeGreaterThanOrEqual(p50)
  })
})

describe('how long an event loop was blocked', () => {
  it('is measured', async () => {
    await watchBlocking()
    const end = performance.now() + 100
    while (performance.now() < end);
    // A busy machine can only make the measured time longer.
    expect(await blockedMs()).toBeGreaterThanOrEqual(95)
  })
})
