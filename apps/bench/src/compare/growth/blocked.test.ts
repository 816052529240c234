import { describe, expect, it } from 'vitest'
import { blockedMs, watchBlocking } from './blocked.ts'

describe('how long an event loop was blocked', () => {
  it('measures a blocked event loop, and starts again after each reading', async () => {
    await watchBlocking()
    const end = performance.now() + 100
    while (performance.now() < end);
    // A busy machine can only make the measured time longer.
    expect(await blockedMs()).toBeGreaterThanOrEqual(95)
  })
})
