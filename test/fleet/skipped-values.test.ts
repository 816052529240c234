// Values that are never stored, because their factory always returns `skip(value)`: no caller waits
// for another process, and no process runs the factory twice at once.

import type { StampedeStats } from '@stampede/core'
import { expect, it } from 'vitest'
import { startAppFleet } from '../harness/app-fleet.ts'
import { burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'

interface Report {
  readonly most: number
  readonly stats: StampedeStats
}

it('runs at most one factory per process for 1000 callers in 4 processes, and none waits for waitMs', async () => {
  const entry = new URL('../harness/servers/values-app.mjs', import.meta.url)
  const env = { CACHE: JSON.stringify({ ttlMs: 60_000, leaseMs: 60_000, waitMs: 80_000 }) }
  await using fleet = await startAppFleet(entry, { size: 4, originDelayMs: 20 }, env)
  const { origin } = fleet
  // The first run waits for callers in all processes, so that three processes wait for a wake-up.
  const gate = createGate()
  origin.answer('/rates', ({ number }) => (number === 1 ? { gate } : {}))
  const asked = burst(fleet.urls('/rates'), 1_000)
  await origin.arrived('/rates')
  const reports = () =>
    Promise.all(fleet.members.map((member) => member.ask<Report>({ type: 'report' })))
  const waiting = async () =>
    (await reports()).filter(({ stats }) => stats.waits.started > 0).length
  await expect.poll(waiting, { timeout: 20_000 }).toBe(3)
  expect(origin.calls('/rates')).toBe(1)
  gate.open()
  const answers = await asked
  expect(answers.filter(({ status }) => status !== 200)).toEqual([])
  // While the key is skipped, further callers wait for no other process.
  const before = await reports()
  const again = await burst(fleet.urls('/rates'), 1_000)
  expect(again.filter(({ status }) => status !== 200)).toEqual([])
  const after = await reports()
  expect(after.map(({ most }) => most)).toEqual([1, 1, 1, 1])
  const sum = (of: (stats: StampedeStats) => number) =>
    after.reduce((total, { stats }) => total + of(stats), 0)
  expect(sum(({ waits }) => waits.timedOut)).toBe(0)
  expect(sum(({ waits }) => waits.started)).toBe(
    before.reduce((total, { stats }) => total + stats.waits.started, 0),
  )
  expect(sum(({ fills }) => fills.skipped)).toBe(origin.calls('/rates'))
  expect(sum(({ fills }) => fills.committed)).toBe(0)
  // All callers of a process that come during a run share its value.
  expect(origin.calls('/rates')).toBeLessThan(400)
}, 120_000)
