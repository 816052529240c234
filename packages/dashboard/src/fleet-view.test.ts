import { type ProcessReport, readReport } from '@stampede/operate'
import { describe, expect, it } from 'vitest'
import { fleetView, type Heard } from './fleet-view.ts'
import { BUCKET_MS } from './history.ts'

const NOW = Math.floor(Date.now() / BUCKET_MS) * BUCKET_MS

/** A report with defaults for all parts that the test does not name. */
function heard(id: string, parts: object, silentMs = 0): Heard {
  const known = { id, host: id, pid: 1, at: Date.now() - silentMs }
  const report = readReport(JSON.stringify({ ...known, ...parts }))
  return { report: report as ProcessReport, silentMs }
}

const view = (...all: Heard[]) => fleetView('a', all, { gone: [] })

const flight = (parts: object) => ({ key: 'k', id: 'd:=k', ageMs: 1_000, ...parts })
const filling = (waiters: number) => flight({ state: 'filling', hasLease: true, waiters })
const waiting = (waiters: number) => flight({ state: 'waiting', waiters })

describe('the list of keys with a flight', () => {
  it('shows for each key the waiters of all processes and the one holder', () => {
    const { work } = view(
      heard('a', { flights: [waiting(3)] }),
      heard('b', { flights: [filling(4)] }),
      heard('c', { flights: [waiting(5)] }),
    )
    expect(work).toEqual([
      {
        key: 'k',
        id: 'd:=k',
        holder: 'b:1',
        isHolderSilent: false,
        states: { waiting: 2, filling: 1 },
        waiters: 12,
        processes: 3,
        ageMs: 1_000,
      },
    ])
  })

  it('names the process that still reports as the holder, not one that has gone silent', () => {
    const silent = heard('b', { flights: [filling(1)] }, 10_000)
    const live = heard('c', { flights: [filling(1)] })
    for (const all of [
      [silent, live],
      [live, silent],
    ]) {
      expect(view(...all).work).toMatchObject([{ holder: 'c:1', isHolderSilent: false }])
    }
    expect(view(silent).work).toMatchObject([{ holder: 'b:1', isHolderSilent: true }])
  })
})

describe('the list of requests that are not cached', () => {
  it('adds up the reasons of all processes by route, and has their fixes', () => {
    const a = { notCached: { '/a': { cookie: 2, private: 1 } } }
    const b = { notCached: { '/a': { cookie: 3 }, '(http)': { other: 9 } } }
    const { notCached } = view(heard('a', { stats: a }), heard('b', { stats: b }))
    expect(notCached).toEqual([
      { route: '(http)', reason: 'other', requests: 9 },
      {
        ...{ route: '/a', reason: 'cookie', requests: 5 },
        fix: expect.stringContaining("cookies: 'ignore'"),
        page: 'docs/guide/why-nothing-is-cached.md#cookies',
      },
      expect.objectContaining({ route: '/a', reason: 'private', requests: 1 }),
    ])
  })

  it('has at most ten rows, those of the most requests', () => {
    const reasons = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`r${i}`, i + 1]))
    const { notCached } = view(heard('a', { stats: { notCached: { '/': reasons } } }))
    expect(notCached.map(({ requests }) => requests)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])
  })

  it('is empty for reports of versions without these counters', () => {
    expect(view(heard('a', { stats: { bypasses: { cookie: 1 } } })).notCached).toEqual([])
  })
})

describe('the ratios', () => {
  it('say that 99 of 100 requests were saved if they waited for one run', () => {
    const stats = { misses: 100, routes: { '/a': { misses: 100, runs: 1 } } }
    const history = { endAt: NOW, series: { miss: [100], origin: [1] } }
    const expected = { hitRatio: 0, saved: 0.99 }
    expect(view(heard('a', { stats, history })).ratios).toEqual({
      sinceStart: expected,
      lastMinute: expected,
    })
  })

  it('are those of all processes, and count the last minute only for the last minute', () => {
    const stats = (l1: number, misses: number, runs: number) => ({
      ...{ hits: { l1, l2: 0 }, misses },
      routes: { '/a': { runs } },
    })
    const old = Array.from({ length: 12 }, () => 0)
    const history = { endAt: NOW, series: { miss: [50, ...old], origin: [50, ...old] } }
    const { ratios } = view(
      heard('a', { stats: stats(60, 20, 20), history }),
      heard('b', { stats: stats(0, 20, 0), history }),
    )
    expect(ratios.sinceStart).toEqual({ hitRatio: 0.6, saved: 0.8 })
    expect(ratios.lastMinute).toEqual({ hitRatio: undefined, saved: undefined })
  })
})

describe('the history', () => {
  const of = (id: string, endAt: number, fresh: number[], silentMs = 0, at?: number): Heard =>
    heard(id, { history: { endAt, series: { fresh } }, ...(at && { at }) }, silentMs)

  it('sums the buckets of all processes, up to the last bucket that every live process has reported', () => {
    const { history } = view(of('a', NOW, [1, 2, 3]), of('b', NOW - BUCKET_MS, [10, 20]))
    expect(history).toMatchObject({ endAt: NOW - BUCKET_MS, series: { fresh: [11, 22] } })
  })

  it('is not cut short by a process that has gone silent', () => {
    const { history } = view(of('a', NOW, [1, 2, 3]), of('b', NOW - 2 * BUCKET_MS, [10], 10_000))
    expect(history).toMatchObject({ endAt: NOW, series: { fresh: [11, 2, 3] } })
  })

  it('aligns the history of a machine whose clock is wrong', () => {
    const hour = 3_600_000
    const { history } = view(
      of('a', NOW, [1, 2]),
      of('b', NOW - hour, [10, 20], 0, Date.now() - hour),
    )
    expect(history).toMatchObject({ endAt: NOW, series: { fresh: [11, 22] } })
  })
})

describe('a report that no process wrote', () => {
  it.each([
    ['no JSON', 'x'],
    ['no object', '1'],
    ['no id', '{}'],
  ])('is ignored if it is %s', (_, text) => {
    expect(readReport(text)).toBeUndefined()
  })

  it('cannot break the page with values of other types', () => {
    const wrong: Partial<Record<keyof ProcessReport, unknown>> = {
      id: 'b',
      pid: {},
      host: ['x'],
      stats: { hits: 'many', misses: null, routes: { __proto__: 1, '/a': 'x' } },
      flights: [null, 1, { waiters: 'x' }],
      hotKeys: { length: 9 },
      recent: [{ fields: [[]] }],
      history: { endAt: 'now', series: { fresh: ['x', Number.NaN] } },
      locks: 'none',
    }
    const report = readReport(JSON.stringify(wrong))
    if (report === undefined) throw new Error('refused')
    const shown = view(heard('a', {}), { report, silentMs: 0 })
    expect(shown.processes).toMatchObject([{ pid: 0 }, { hits: 0 }])
    expect(JSON.stringify(shown)).not.toContain('null')
  })

  it('has bounded lists', () => {
    const flights = Array.from({ length: 10_000 }, (_, i) => ({ ...filling(1), id: `k${i}` }))
    expect(readReport(JSON.stringify({ id: 'b', flights }))?.flights.length).toBe(50)
  })
})
