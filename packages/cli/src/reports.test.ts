import type { StampedeStore } from '@stampede/core'
import { expect, it } from 'vitest'
import { readProcesses } from './reports.ts'

it('counts a stale entry in place of a failure as a request that was served', async () => {
  const stats = {
    hits: { l1: 5, l2: 2 },
    misses: 3,
    bypasses: { method: 1 },
    stale: { revalidate: 4, 'soft-timeout': 1, 'origin-queue': 0, 'if-error': 2 },
  }
  const reports = async () => new Map([['a', JSON.stringify({ id: 'a', stats })]])
  const [report] = await readProcesses({ operator: { reports } } as unknown as StampedeStore)
  expect(report).toMatchObject({ requests: 14, hits: 10, stale: 7 })
})
