// A fleet on a simulated clock, network and Redis, from fixed seeds: docs/simulation.md. For longer runs, `npm run simulate`;
// that it notices what it should is shown there too.

import { describe, expect, it } from 'vitest'
import { drain, inMacrotask } from './simulation/drain.ts'
import { type Outcome, runEpisode } from './simulation/episode.ts'
import { Figures } from './simulation/figures.ts'

const SEEDS = Array.from({ length: 12 }, (_, i) => 1_001 + i)
/** A machine that is busy runs fewer; what it runs are the same ones. */
const BUDGET_MS = 20_000

const episode = (seed: number, forMs: number, figures = new Figures()): Promise<Outcome> =>
  inMacrotask(() => runEpisode({ seed, processes: 40, forMs }, figures))

describe('a step', () => {
  it('is over when every promise has settled, however long the chain is', async () => {
    const depths = [1, 50, 5_000]
    const descend = async (depth: number): Promise<number> =>
      depth === 0 ? 0 : 1 + (await descend(depth - 1))
    const settled = await inMacrotask(() => {
      const reached: number[] = []
      for (const depth of depths) void descend(depth).then((at) => reached.push(at))
      drain()
      return [...reached]
    })
    expect(settled).toEqual(depths)
  })
})

describe('the same seed', () => {
  it('gives the same transcript, line by line', async () => {
    const [a, b] = [await episode(7, 20_000), await episode(7, 20_000)]
    expect(a.transcript.tail(2_000)).toEqual(b.transcript.tail(2_000))
    expect([a.transcript.hash, a.transcript.lines, a.steps]).toEqual([
      b.transcript.hash,
      b.transcript.lines,
      b.steps,
    ])
    const other = await episode(8, 20_000)
    expect(other.transcript.hash).not.toBe(a.transcript.hash)
  })
})

describe('whatever goes wrong', () => {
  it('breaks no rule', async () => {
    const figures = new Figures()
    const end = performance.now() + BUDGET_MS
    for (const seed of SEEDS) {
      if (performance.now() > end) break
      const { violation, transcript } = await episode(seed, 30_000, figures)
      if (violation !== undefined) {
        throw new Error(`seed ${seed}: ${violation.message}\n${transcript.tail(60).join('\n')}`)
      }
    }
    // One in which nothing happened would find nothing.
    expect(figures.committed).toBeGreaterThan(50)
    expect([...figures.faults.values()].reduce((sum, each) => sum + each, 0)).toBeGreaterThan(20)
    expect(figures.works).toBeGreaterThan(10)
  }, 60_000)
})
