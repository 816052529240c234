// A fleet on a simulated clock, network and Redis, from fixed seeds: README.md in this folder. For
// longer runs use `npm run simulate`. That page also has the planted faults that it notices.

import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { drain, inMacrotask } from './drain.ts'
import { type Outcome, runEpisode } from './episode.ts'
import { Figures } from './figures.ts'
import { launched, reported } from './launched.ts'
import { MUTATIONS } from './mutations.ts'
import { withSimulatedTimers } from './process-time.ts'
import { REGRESSIONS } from './regressions.ts'
import { LargeFleet } from './scale/large-fleet.ts'
import { makeSchedule } from './schedule.ts'
import { asArguments, settingOf } from './setting.ts'

/**
 * The first three have jobs, all kinds of lookups and 22 faults, because a busy machine may run no
 * others.
 */
const SEEDS = [1_003, 1_001, 1_006, 1_011, 1_002, 1_004, 1_005, 1_007, 1_008, 1_009, 1_010, 1_012]
/** A busy machine runs fewer episodes of the same list. */
const BUDGET_MS = 12_000

const episode = (seed: number, forMs: number, figures = new Figures()): Promise<Outcome> =>
  inMacrotask(() => runEpisode({ seed, processes: 40, forMs }, figures))

describe('a step of the simulation', () => {
  it('ends when every promise has settled, even in a long chain', async () => {
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

describe('a seed of the simulation', () => {
  it('gives the same transcript each time, line by line', async () => {
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

describe('a fleet that asks for many keys at once, under random faults', () => {
  it('breaks no rule of single calls', async () => {
    const figures = new Figures()
    const end = performance.now() + BUDGET_MS
    for (const seed of SEEDS) {
      if (performance.now() > end) break
      const setting = { seed, processes: 6, forMs: 30_000, many: true }
      const { violation, transcript } = await inMacrotask(() => runEpisode(setting, figures))
      if (violation !== undefined)
        throw new Error(`seed ${seed}: ${violation.message}\n${transcript.tail(60).join('\n')}`)
    }
    expect(figures.committed).toBeGreaterThan(50)
  }, 60_000)
})

describe('a fleet under random faults', () => {
  it('breaks no rule in any episode', async () => {
    const figures = new Figures()
    const end = performance.now() + BUDGET_MS
    for (const [i, seed] of SEEDS.entries()) {
      if (i >= 3 && performance.now() > end) break
      const { violation, transcript } = await episode(seed, 30_000, figures)
      if (violation !== undefined) {
        throw new Error(`seed ${seed}: ${violation.message}\n${transcript.tail(60).join('\n')}`)
      }
    }
    // An episode without events would find nothing.
    expect(figures.committed).toBeGreaterThan(50)
    expect([...figures.faults.values()].reduce((sum, each) => sum + each, 0)).toBeGreaterThan(20)
    expect(figures.works).toBeGreaterThan(10)
    expect(figures.told).toBeGreaterThan(5)
    expect(figures.readFirst).toBeGreaterThan(20)
  }, 60_000)
})

describe('an episode of the simulation', () => {
  it('keeps all other calls and faults if some are left out', () => {
    const whole = makeSchedule({ seed: 3, processes: 40, forMs: 20_000 })
    const part = makeSchedule({ seed: 3, processes: 40, forMs: 20_000, calls: [1, 4], faults: [] })
    expect(part.calls).toEqual([whole.calls[1], whole.calls[4]])
    expect(part).toMatchObject({ fleet: whole.fleet, plan: { keys: whole.plan.keys }, faults: [] })
  })

  it('is described by one line, also after it was shrunk', () => {
    const line = '--seed 3 --processes 40 --minutes 0.5 --fleet 2 --faults none --calls 1-3,7'
    expect(asArguments(settingOf(line))).toBe(line)
    expect(settingOf(line)).toMatchObject({ forMs: 30_000, faults: [], calls: [1, 2, 3, 7] })
    expect(() => settingOf('--calls 1..3')).toThrow('1..3: write numbers as 0-3,7, or none')
  })

  it.each(REGRESSIONS)('no longer breaks a rule: $was', async ({ line }) => {
    const { violation } = await inMacrotask(() => runEpisode(settingOf(line), new Figures()))
    expect(violation?.message).toBeUndefined()
  })
})

describe('a mutation of the protocol', () => {
  it('matches the sources exactly once', async () => {
    for (const { file, from } of MUTATIONS.flatMap(({ edits }) => edits)) {
      const at = file.startsWith('lua/') ? `../../${file}` : `../../packages/${file}`
      const text = await readFile(new URL(at, import.meta.url), 'utf8')
      expect.soft(text.split(from), `${file}: ${from}`).toHaveLength(2)
    }
  })

  it('is found by an episode of at most four calls, which one line repeats', async () => {
    const broken = MUTATIONS.find(({ name }) => name === 'a response with Set-Cookie is stored')
    const edits = broken?.edits ?? []
    const args = ['--seed', '1', '--processes', '6', '--minutes', '1', '--shrink', '--lines', '9']
    const told = await launched(args, edits)
    const [, line = ''] = /npm run simulate -- (.*)/.exec(told) ?? []
    expect(told).toContain('nothing of another: ')
    expect(settingOf(line).calls?.length).toBeLessThanOrEqual(4)
    const again = await reported<{ found?: string }>(line.split(' '), edits)
    expect(again.found).toMatch(/^nothing of another: /)
    const mended = await reported<{ found?: string; episodes: number }>(line.split(' '), [])
    expect(mended).toMatchObject({ episodes: 1 })
    expect(mended.found).toBeUndefined()
  }, 120_000)
})

describe('a thousand processes that ask for one cold key at once', () => {
  it('run the origin once, look up once each, and all get the entry by one commit', async () => {
    const { asked, cost } = await inMacrotask(() =>
      withSimulatedTimers(() => {
        const fleet = new LargeFleet(1_000)
        fleet.pass(500)
        const asked = fleet.askAll('one', 200)
        return { asked, cost: fleet.pass(10_000, () => asked.left === 0) }
      }),
    )
    expect(asked).toMatchObject({ left: 0, origins: 1, failed: 0 })
    expect(cost.commands.commit).toBe(1)
    expect(cost.messages).toBe(999)
    expect(cost.commands['lookup-or-lease']).toBe(1 + 999)
    expect(asked.lastMs).toBeLessThan(300)
  }, 60_000)
})
