import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type PathsRun, pathsPage, rawName, runsIn } from './page.ts'

const AROUND = {
  ...{ date: '2026-01-02', commit: 'abc', machine: 'a machine', redis: '7', roundMs: 800 },
  loadBefore: 0,
}
const ROUTE = { id: 'route', name: 'the route', kind: 'uncached' } as const
const MISS = { id: 'miss', name: 'a miss', kind: 'ours', floor: 'route' } as const

const measured = (micros: readonly number[]) => micros.map((cpuMicros) => ({ cpuMicros }))
const runOn = (node: string, missMicros: readonly number[], wanted = 1.5): PathsRun => ({
  ...{ ...AROUND, node },
  rows: [
    { ...ROUTE, rounds: measured([100, 200, 100]) },
    { ...MISS, wanted, rounds: measured(missMicros) },
  ],
})

describe('the page of the paths', () => {
  it('has the versions of Node beside each other, and missed targets in bold', () => {
    const page = pathsPage([runOn('v20.1.0', [150, 280, 140]), runOn('v24.2.0', [160, 400, 210])])
    expect(page).toContain('| path | wanted | Node 20: CPU µs | ÷ route | Node 24: CPU µs |')
    expect(page).toContain('| the route |  | 100 |  | 100 |  |')
    expect(page).toContain('| a miss | ≤ 1.5 | 150 | 1.40 | 210 | **2.00** |')
    expect(page).toContain('- Node v24.2.0, on 2026-01-02 at abc: 3 rounds of 800 ms')
  })

  it('compares each version of Node with its own target', () => {
    const page = pathsPage([
      runOn('v20.1.0', [160, 320, 160]),
      runOn('v24.2.0', [160, 400, 210], 2.2),
    ])
    expect(page).toContain('| a miss | ≤ 1.5, ≤ 2.2 | 160 | **1.60** | 210 | 2.00 |')
  })

  it('finds one run for each version of Node, the oldest version first', () => {
    const folder = mkdtempSync(join(tmpdir(), 'paths-'))
    for (const node of ['v100.0.0', 'v24.2.0', 'v24.3.0', 'v20.1.0']) {
      const run = runOn(node, [100, 200, 100])
      writeFileSync(join(folder, rawName(run)), JSON.stringify(run))
    }
    expect(runsIn(folder).map(({ node }) => node)).toEqual(['v20.1.0', 'v24.3.0', 'v100.0.0'])
  })
})
