// Cases: what stats() counts for requests, in total and by route.

import type { StampedeStats } from '@stampede/core'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask, burst } from '../requests.ts'
import type { CacheAdapter } from './adapter.ts'
import { setUp } from './bench.ts'

export function countingCases(adapter: CacheAdapter): void {
  it('counts each request once, as a hit, a miss or a bypass with its reason', async () => {
    const gate = createGate()
    const { arrivals, clock, happened, stampede, start } = setUp(adapter, async () => {
      await gate.opened
      return { body: '12345' }
    })
    await using app = await start({ jitter: 0 })
    const asked = burst([`${app.url}/a`], 3)
    await arrivals.reached(3)
    await clock.advance(120)
    gate.open()
    await asked
    await happened('fill.committed')
    await ask(`${app.url}/a`)
    await ask(`${app.url}/a`)
    await ask(`${app.url}/a`, { headers: { cookie: 'id=1' } })
    await ask(`${app.url}/a`, { method: 'POST' })
    const { misses, hits, bypasses, origin, routes } = stampede.stats()
    expect({ misses, hits, bypasses }).toEqual({
      misses: 3,
      hits: { l1: 2, l2: 0 },
      bypasses: { cookie: 1, method: 1 },
    })
    expect(origin).toEqual({ totalMs: 120, savedMs: 240 })
    const all = Object.values(routes)
    const sum = (name: 'hits' | 'misses' | 'bypasses' | 'bytes' | 'runs') =>
      all.reduce((total, route) => total + route[name], 0)
    expect([sum('hits'), sum('misses'), sum('bypasses'), sum('bytes'), sum('runs')]).toEqual([
      2, 3, 2, 10, 1,
    ])
  })

  it('counts one run for 100 requests that wait for it', async () => {
    const gate = createGate()
    const { arrivals, stampede, start } = setUp(adapter, async () => {
      await gate.opened
      return {}
    })
    await using app = await start()
    const asked = burst([`${app.url}/a`], 100)
    await arrivals.reached(100)
    gate.open()
    await asked
    const { misses, routes } = stampede.stats()
    expect({ misses, runs: runsOn(routes) }).toEqual({ misses: 100, runs: 1 })
  })

  it('counts a run for each request while a response cannot be shared', async () => {
    const { stampede, start, runs } = setUp(adapter, () => ({ headers: { 'set-cookie': 'id=1' } }))
    await using app = await start()
    for (let i = 0; i < 5; i++) await ask(`${app.url}/a`)
    await burst([`${app.url}/a`], 10)
    await expect.poll(() => runsOn(stampede.stats().routes)).toBe(15)
    expect([runs.count, stampede.stats().misses]).toEqual([15, 15])
  })

  it('counts a failed run as stale if its client gets the stale entry', async () => {
    const { clock, happened, stampede, start } = setUp(adapter, (_seen, run) =>
      run === 1 ? {} : { status: 503 },
    )
    await using app = await start({ ttlMs: 1_000, staleIfErrorMs: 60_000, jitter: 0 })
    await ask(`${app.url}/a`)
    await happened('fill.committed')
    await clock.advance(2_000)
    expect((await ask(`${app.url}/a`)).body).toBe('run 1')
    const { stale, misses, fills } = stampede.stats()
    expect({ stale: stale['if-error'], misses, failed: fills.failed }).toEqual({
      stale: 1,
      misses: 1,
      failed: 1,
    })
  })

  it('counts each run of a response that cannot be shared as a miss, with the reason', async () => {
    const { stampede, start } = setUp(adapter, () => ({ headers: { 'set-cookie': 'id=1' } }))
    await using app = await start()
    for (let i = 0; i < 3; i++) await ask(`${app.url}/a`)
    const { misses, hits, notCached } = stampede.stats()
    expect({ misses, hits }).toEqual({ misses: 3, hits: { l1: 0, l2: 0 } })
    const reasons = Object.values(notCached).flatMap(Object.keys)
    expect(reasons).toContain('set-cookie')
  })
}

function runsOn(routes: StampedeStats['routes']): number {
  return Object.values(routes).reduce((total, { runs }) => total + runs, 0)
}
