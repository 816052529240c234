import { describe, expect, it } from 'vitest'
import type { CallRow } from '../data/run-calls.ts'
import type { HitRow } from '../hit/run-hits.ts'
import { subjects } from '../hit/subjects.ts'
import { whole } from '../lib/markdown.ts'
import { medianOf, ratios, spreadOf } from '../lib/statistics.ts'
import { pageOf } from './page.ts'
import { plotsOf } from './plots.ts'
import { shortfalls } from './shortfalls.ts'
import { targetsOf } from './targets.ts'

const AROUND = {
  date: '2026-01-02',
  commit: 'abc',
  node: 'v20',
  machine: 'a machine',
  command: 'npm run bench',
  seconds: 1,
  loadBefore: 0,
}
const floorRates = [100, 200, 400]

function hit(id: string, rates: readonly number[]): HitRow {
  const subject = subjects.find((each) => each.id === id)
  if (subject === undefined) throw new Error(`no subject named ${id}`)
  return {
    subject,
    rates,
    rounds: [],
    requestsPerSecond: spreadOf(rates),
    cpuMicros: 10,
    loaderMicros: 5,
    ofFloor: medianOf(ratios(rates, floorRates)),
  }
}

function call(id: string, kind: CallRow['kind'], rate: number): CallRow {
  const figures = { callsPerSecond: spreadOf([rate]), cpuMicros: 1, ofFloor: rate / 100 }
  return { id, name: id, kind, rates: [rate], rounds: [], ...figures }
}

const pagesSeen = { entries: 1, bodyBytes: 1, memoryBytes: 1, countedBytes: 1 }

describe('the page of the benchmarks', () => {
  const hits = [hit('express-used', floorRates), hit('express', [96, 150, 396])]

  it('takes the median of ratios that are taken within each round', () => {
    const [target] = targetsOf({ hits, ...AROUND })
    expect(target).toMatchObject({ wanted: '≥ 0.98', seen: '0.96', isMet: false })
  })

  it('marks targets that are not met, and lists where Stampede is slower', () => {
    const calls = [call('lru-cache', 'floor', 90), call('ours', 'ours', 40), call('a', 'peer', 80)]
    const results = { hits, calls, ...AROUND }
    expect(pageOf(results)).toContain('| ≥ 1.20 | 0.50 | **not met** |')
    expect(shortfalls(results)).toEqual(['a hit in memory, ours: 40/s; lru-cache 90/s, a 80/s.'])
  })

  it('compares hits with hits and misses with misses', () => {
    const apicache = hit('apicache', [500, 500, 500])
    const ours = [hit('express4', [90, 190, 390]), hit('express-miss', [10, 10, 10])]
    const others = [apicache, hit('apicache-miss', [20, 20, 20])]
    const found = shortfalls({ hits: [...ours, ...others], ...AROUND })
    expect(found).toEqual(['`stampedeCache` on Express 4: 190/s; apicache on Express 4 500/s.'])
  })

  it('marks a part of a run as such, and leaves out the sections of other runs', () => {
    const page = pageOf({ hits, ...AROUND, command: 'npm run bench -- --only hit' })
    expect(page).toContain('Written by `npm run bench -- --only hit`')
    expect(page).toContain('**A part of a run**')
    expect(page).not.toMatch(/## (Locks and idempotency|Set-up)/)
  })

  it('lists callers and clients that wait more than a millisecond longer than with another cache', () => {
    const waiters = ['stampede', 'a', 'b'].map((peer, i) => ({
      ...{ peer, waiters: 1_000, originCalls: 1, blockedMs: 1 },
      settledMs: [5, 3.5, 4.5][i] ?? 0,
    }))
    const crowds = ['express', 'stampede'].map((subject, i) => ({
      ...{ subject, clients: 100, originCalls: 1, respondedMs: 9 },
      blockedMs: [20, 30][i] ?? 0,
    }))
    const seen = { keys: [], fleets: [], waiters, crowds, pages: pagesSeen }
    expect(shortfalls({ growth: seen, ...AROUND })).toEqual([
      `${whole(1_000)} callers, ms until the last value: 5; a 4.`,
      '100 clients, event loop blocked in ms: 30; express 20.',
    ])
  })

  it('shows exactly the plots that exist', () => {
    const results = { hits, calls: [call('ours', 'ours', 40)], ...AROUND }
    const shown = [...pageOf(results).matchAll(/\(benchmarks\/(\S+\.svg)\)/g)].map(
      ([, name]) => name,
    )
    expect(shown).toEqual(['hits.svg', 'memory.svg'])
    expect([...plotsOf(results).keys()]).toEqual(shown)
    for (const svg of plotsOf(results).values()) {
      expect(svg).toMatch(/^<svg [^>]+>\n<title>[^<]+<\/title>[\s\S]+<\/svg>\n$/)
      expect(svg).not.toMatch(/NaN|Infinity|undefined/)
    }
  })
})
