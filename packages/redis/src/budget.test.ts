import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { withBudget } from './budget.ts'

describe('a budget', () => {
  it('is spent when nothing comes', async () => {
    await expect(withBudget(10, new Promise(() => {}))).rejects.toThrow('no answer within 10 ms')
  })

  it('is not spent by our own blocked event loop when the answer is there already', async () => {
    // As a reply in a socket's buffer: ready, but read only in the poll phase, after the timers.
    const answer = new Promise((resolve) => setImmediate(resolve, 'there'))
    const asked = withBudget(10, answer)
    const end = performance.now() + 50
    while (performance.now() < end);
    expect(await asked).toBe('there')
  })

  it('is one timer for all that is asked at one time, and each is late by itself', async () => {
    const timers = () =>
      process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    const before = timers()
    const never = () => new Promise(() => {})
    const asked = [
      withBudget(20, never()),
      withBudget(20, Promise.resolve('there')),
      withBudget(20, Promise.reject(new Error('refused'))),
      withBudget(20, never()),
    ]
    expect(timers() - before).toBe(1)
    const seen = await Promise.allSettled(asked)
    expect(seen.map((each) => ('value' in each ? each.value : each.reason.message))).toEqual([
      'no answer within 20 ms',
      'there',
      'refused',
      'no answer within 20 ms',
    ])
  })

  it('begins anew for what is asked later', async () => {
    const first = expect(withBudget(40, new Promise(() => {}))).rejects.toThrow('no answer')
    await sleep(25)
    const startedAt = performance.now()
    await expect(withBudget(40, new Promise(() => {}))).rejects.toThrow('no answer within 40 ms')
    expect(performance.now() - startedAt).toBeGreaterThan(38)
    await first
  })

  it('leaves no timer behind', async () => {
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    await withBudget(60_000, Promise.resolve())
    await sleep(0)
    const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    expect(after).toBeLessThanOrEqual(before)
  })
})
