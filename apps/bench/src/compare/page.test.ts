import { describe, expect, it } from 'vitest'
import { fillPage, whole } from '../lib/markdown.ts'
import type { Row } from '../lib/rows.ts'
import { tablesOf } from './page.ts'
import { shortfalls, targetsOf } from './results.ts'
import type { Growth } from './run-growth.ts'
import { hits as table } from './tables.ts'

const measured = (rates: readonly number[]) =>
  rates.map((rate) => ({ rate, cpuMicros: 10, loaderMicros: 5 }))

function hit(id: string, rates: readonly number[]) {
  const row = table.find((each) => each.id === id)
  if (row === undefined) throw new Error(`no row named ${id}`)
  return { ...row, rounds: measured(rates) }
}

const call = (id: string, kind: Row['kind'], rate: number) =>
  ({ id, name: id, kind, rounds: measured([rate]), create: () => async () => {} }) as const

const AROUND = {
  ...{ date: '2026-01-02', commit: 'abc', node: 'v20', machine: 'a machine', redis: '7' },
  ...{ seconds: '1', raw: 'Raw.', load: '0', isQuiet: 'yes', isPart: 'yes' },
}

describe('the page of the benchmarks', () => {
  const hits = [hit('express-used', [100, 200, 400]), hit('express', [96, 150, 396])]
  const calls = [call('lru-cache', 'floor', 90), call('ours', 'ours', 40), call('a', 'peer', 80)]
  const pageOf = (results: Parameters<typeof tablesOf>[0], command = 'npm run bench') =>
    fillPage('benchmarks', { ...AROUND, command, ...tablesOf(results) })

  it('takes the median of ratios that are taken within each round', () => {
    const what = 'hit on Express 5 ÷ ready bytes on Express 5'
    expect(targetsOf({ hits })).toEqual([[what, '≥ 0.98', '0.96', '**not met**']])
  })

  it('marks targets that are not met, and lists where Stampede is slower', () => {
    expect(pageOf({ hits, calls })).toContain('| ≥ 1.20 | 0.50 | **not met** |')
    const slower = 'a hit in memory, ours: 40/s; lru-cache 90/s, a 80/s.'
    expect(shortfalls({ hits, calls })).toEqual([slower])
  })

  it('compares hits with hits and misses with misses', () => {
    const ours = [hit('express4', [90, 190, 390]), hit('express-miss', [10, 10, 10])]
    const others = [hit('apicache', [500, 500, 500]), hit('apicache-miss', [20, 20, 20])]
    const found = shortfalls({ hits: [...ours, ...others] })
    expect(found).toEqual(['`stampedeCache` on Express 4: 190/s; apicache on Express 4 500/s.'])
  })

  it('marks a part of a run as such, and leaves out the sections of other runs', () => {
    const page = pageOf({ hits }, 'npm run bench -- --only hit')
    expect(page).toContain('Written by `npm run bench -- --only hit`')
    expect(page).toContain('**A part of a run**')
    expect(page).not.toMatch(/## (Locks and idempotency|Set-up|Growth)|\{\{|\n\n\n/)
  })

  it('lists callers and clients that wait more than a millisecond longer than with another cache', () => {
    const waiters = ['stampede', 'a', 'b'].map((peer, i) => ({
      ...{ peer, waiters: 1_000, originCalls: 1, blockedMs: 1 },
      settledMs: [5, 3.5, 4.5][i] ?? 0,
    }))
    const crowds = ['express', 'stampede'].map((peer, i) => ({
      ...{ peer, clients: 100, originCalls: 1, respondedMs: 9, blockedMs: [20, 30][i] ?? 0 },
    }))
    const growth = { keys: [], fleets: [], waiters, crowds } as unknown as Growth
    expect(shortfalls({ growth })).toEqual([
      `${whole(1_000)} callers, ms until the last value: 5; a 4.`,
      '100 clients, event loop blocked in ms: 30; express 20.',
    ])
  })
})
