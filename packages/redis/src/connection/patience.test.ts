import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { withBudget } from './budget.ts'
import { Patience } from './patience.ts'

const BUDGET_MS = 100

describe('patience', () => {
  it('gives the first late reply one more budget', () => {
    const patience = new Patience(new ManualClock(), BUDGET_MS)
    expect(patience.mostMs(30)).toBe(BUDGET_MS)
    expect(patience.moreMs()).toBe(BUDGET_MS)
  })

  it('ends at one moment for all commands under way', async () => {
    const clock = new ManualClock()
    const patience = new Patience(clock, BUDGET_MS)
    patience.moreMs()
    await clock.advance(40)
    expect(patience.moreMs()).toBe(60)
    expect([patience.mostMs(0), patience.mostMs(50), patience.mostMs(100)]).toEqual([60, 10, 0])
    await clock.advance(60)
    expect(patience.moreMs()).toBe(0)
    await clock.advance(60_000)
    expect(patience.moreMs()).toBe(0)
  })

  it('is given again after a reply within half a budget, and not after a slower one', async () => {
    const clock = new ManualClock()
    const patience = new Patience(clock, BUDGET_MS)
    patience.moreMs()
    await clock.advance(200)
    patience.replied(50)
    expect(patience.moreMs()).toBe(0)
    patience.replied(49)
    expect(patience.moreMs()).toBe(BUDGET_MS)
  })
})

describe('a budget with patience', () => {
  const reply = (inMs: number) =>
    new Promise<string>((resolve) => setTimeout(() => resolve('there'), inMs))
  const never = () => new Promise<never>(() => {})

  it('waits for a late reply', async () => {
    const patience = new Patience(new ManualClock(), BUDGET_MS)
    expect(await withBudget(BUDGET_MS, reply(140), patience)).toBe('there')
  })

  it('is spent after the extra time, and says how long it waited', async () => {
    const patience = new Patience(new ManualClock(), BUDGET_MS)
    const asked = withBudget(50, never(), patience)
    await expect(asked).rejects.toThrow('no answer within 150 ms')
  })

  it('claims no extra time for a reply that was there in time', async () => {
    const patience = new Patience(new ManualClock(), BUDGET_MS)
    // In the check phase: timers come next, and two more turns after that the budget is spent.
    await new Promise(setImmediate)
    let answer = (_: string) => {}
    const asked = withBudget(5, new Promise<string>((resolve) => (answer = resolve)), patience)
    setTimeout(() => setImmediate(() => answer('there')), 5)
    expect(await asked).toBe('there')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(patience.mostMs(1_000)).toBe(BUDGET_MS)
  })
})
