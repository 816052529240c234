import { UnevenClock } from '@stampede/testkit'
import { expect, it } from 'vitest'
import { elapsedMs, now } from './stopwatch.ts'

it('believes whichever clock says that more time has passed', async () => {
  const clock = new UnevenClock()
  const began = now(clock)
  await clock.advance(100)
  expect(elapsedMs(clock, began)).toBe(100)
  clock.suspend(3_600_000)
  expect(elapsedMs(clock, began)).toBe(3_600_100)
  clock.suspend(-7_200_000)
  expect(elapsedMs(clock, began)).toBe(100)
})
