import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { withBudget } from './budget.ts'
import { ExtraBudget } from './extra-budget.ts'

const BUDGET_MS = 100

describe('the extra budget', () => {
  it('gives a first late reply as much time again as the time budget', () => {
    const extraBudget = new ExtraBudget(new ManualClock(), BUDGET_MS)
    expect(extraBudget.availableMs(30)).toBe(BUDGET_MS)
    expect(extraBudget.startMs()).toBe(BUDGET_MS)
  })

  it('ends at the same moment for all pending commands', async () => {
    const clock = new ManualClock()
    const extraBudget = new ExtraBudget(clock, BUDGET_MS)
    extraBudget.startMs()
    await clock.advance(40)
    expect(extraBudget.startMs()).toBe(60)
    expect([
      extraBudget.availableMs(0),
      extraBudget.availableMs(50),
      extraBudget.availableMs(100),
    ]).toEqual([60, 10, 0])
    await clock.advance(60)
    expect(extraBudget.startMs()).toBe(0)
    await clock.advance(60_000)
    expect(extraBudget.startMs()).toBe(0)
  })

  it('is available again only after a reply within half a time budget', async () => {
    const clock = new ManualClock()
    const extraBudget = new ExtraBudget(clock, BUDGET_MS)
    extraBudget.startMs()
    await clock.advance(200)
    extraBudget.onReply(50)
    expect(extraBudget.startMs()).toBe(0)
    extraBudget.onReply(49)
    expect(extraBudget.startMs()).toBe(BUDGET_MS)
  })
})

describe('a time budget with an extra budget', () => {
  const reply = (inMs: number) =>
    new Promise<string>((resolve) => setTimeout(() => resolve('there'), inMs))
  const never = () => new Promise<never>(() => {})

  it('accepts a reply that is late by less than the extra budget', async () => {
    const extraBudget = new ExtraBudget(new ManualClock(), BUDGET_MS)
    expect(await withBudget(BUDGET_MS, reply(140), extraBudget)).toBe('there')
  })

  it('ends after the extra budget, and the error states the total time', async () => {
    const extraBudget = new ExtraBudget(new ManualClock(), BUDGET_MS)
    const asked = withBudget(50, never(), extraBudget)
    await expect(asked).rejects.toThrow('no reply within 150 ms')
  })

  it('uses no extra time for a reply that arrived in time', async () => {
    const extraBudget = new ExtraBudget(new ManualClock(), BUDGET_MS)
    // In the check phase: timers come next, and two more turns after that the budget is spent.
    await new Promise(setImmediate)
    let answer = (_: string) => {}
    const asked = withBudget(5, new Promise<string>((resolve) => (answer = resolve)), extraBudget)
    setTimeout(() => setImmediate(() => answer('there')), 5)
    expect(await asked).toBe('there')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(extraBudget.availableMs(1_000)).toBe(BUDGET_MS)
  })
})
