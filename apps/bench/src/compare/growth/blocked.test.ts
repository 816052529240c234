import { describe, expect, it } from 'vitest'
import { blockedMs, watchBlocking } from './blocked.ts'

describe('how long an event loop was blocked', () => {
  it('counts what blocks at once, each time anew', async () => {
    await watchBlocking()
    const end = performance.now() + 100
    while (performance.now() < end);
    // Never less than it was; more if the machine has other work.
    expect(await blockedMs()).toBeGreaterThanOrEqual(95)
  })
})
