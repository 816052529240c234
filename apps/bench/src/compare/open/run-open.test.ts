// Small fleets of the benchmark: checks what they count, and no times.

import { beforeAll, describe, expect, it } from 'vitest'
import type { OpenPeer } from './peer.ts'
import type { OpenPlan, OpenRow } from './run-open.ts'
import type { Scenario } from './scenarios.ts'

interface Program {
  readonly runOpen: (plan: OpenPlan) => Promise<OpenRow[]>
  readonly peers: readonly OpenPeer[]
}

let program: Program
beforeAll(async () => {
  // The fleet runs compiled code. `npm run bench:check` has just compiled it.
  const compiled = (file: string) =>
    import(
      /* @vite-ignore */ new URL(`../../../dist/compare/open/${file}.js`, import.meta.url).href
    )
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
  it('counts one origin call per cold burst for Stampede, and one for each new key', async () => {
    const peers = program.peers.filter(({ id }) => id === 'stampede')
    const rows = await program.runOpen({ peers, scenarios: [burst, once], processes: 2, rounds: 1 })
    expect(rows.map(figures)).toEqual([
      ['burst', 1, 40, 0],
      ['once', 40, 40, 0],
    ])
    for (const { latencyMs } of rows) expect(latencyMs.p99).toBeGreaterThanOrEqual(latencyMs.p50)
  })
})
