// The fleets of the benchmark, small: that what they count is so. Times are not asserted.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import type { OpenPeer } from '../apps/bench/src/compare/open/peer.ts'
import type { OpenPlan, OpenRow } from '../apps/bench/src/compare/open/run-open.ts'
import type { Scenario } from '../apps/bench/src/compare/open/scenarios.ts'

const COMPARE = new URL('../apps/bench/', import.meta.url)

interface Program {
  readonly runOpen: (plan: OpenPlan) => Promise<OpenRow[]>
  readonly peers: readonly OpenPeer[]
}

let program: Program
beforeAll(async () => {
  // Its processes run what is compiled, which `npm run build` does not do for it.
  const tsc = fileURLToPath(new URL('../node_modules/.bin/tsc', import.meta.url))
  await promisify(execFile)(tsc, ['-p', fileURLToPath(new URL('src/compare', COMPARE))])
  const compiled = (file: string) =>
    import(/* @vite-ignore */ new URL(`dist/compare/open/${file}.js`, COMPARE).href)
  const { runOpen } = await compiled('run-open')
  program = { runOpen, peers: (await compiled('peers')).openPeers }
})

const quiet = { ttlMs: 60_000, staleMs: 0, troubles: [], title: '', story: '' }
const burst: Scenario = {
  ...quiet,
  id: 'burst',
  originMs: 100,
  arrivals: () => Array.from({ length: 40 }, (_, n) => ({ atMs: n, key: 'cold' })),
}
const once: Scenario = {
  ...quiet,
  id: 'once',
  originMs: 1,
  arrivals: () => Array.from({ length: 40 }, (_, n) => ({ atMs: n, key: `once-${n}` })),
}
const figures = ({ scenario, originCalls, requests, failed }: OpenRow) =>
  [scenario, originCalls.median, requests, failed] as const

describe('a fleet of the benchmark', () => {
  it('counts one origin call in a cold burst on ours, and one for each key of its own', async () => {
    const peers = program.peers.filter(({ id }) => id === 'stampede')
    const rows = await program.runOpen({ peers, scenarios: [burst, once], processes: 2, rounds: 1 })
    expect(rows.map(figures)).toEqual([
      ['burst', 1, 40, 0],
      ['once', 40, 40, 0],
    ])
    for (const { latencyMs } of rows) expect(latencyMs.p99).toBeGreaterThanOrEqual(latencyMs.p50)
  })
})
