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

  it('leaves no timer behind', async () => {
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    await withBudget(60_000, Promise.resolve())
    await sleep(0)
    const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    expect(after).toBeLessThanOrEqual(before)
  })
})
