import { expect, it } from 'vitest'
import { reportEveryMs } from './report-form.ts'

it.each([0, 1, 10, 100, 10_000])(
  'reports of %d processes cost at most five commands a second',
  (processes) => {
    const everyMs = reportEveryMs(processes)
    expect(everyMs).toBeGreaterThanOrEqual(2_000)
    expect((processes * 1_000) / everyMs).toBeLessThanOrEqual(5)
  },
)
