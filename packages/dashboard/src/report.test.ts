import { createStampede } from '@stampede/core'
import { expect, it } from 'vitest'
import { Reporter } from './reporter.ts'

it.each([
  [true, '500 no rate for eur'],
  [false, 500],
])('a report with showKeys: %s has the failure of a run as %j', async (showKeys, failure) => {
  const stampede = createStampede()
  const reporter = new Reporter({ stampede, locks: undefined, showKeys })
  try {
    const fail = () => {
      throw new Error('no rate for eur')
    }
    await expect(stampede.getOrSet('rates:eur', fail, { ttlMs: 1_000 })).rejects.toThrow('no rate')
    const failed = reporter.own().recent.find(({ type }) => type === 'fill.failed')
    expect(failed?.fields).toEqual({ failure, elapsedMs: expect.any(Number) })
  } finally {
    await reporter.close()
    await stampede.close()
  }
})
