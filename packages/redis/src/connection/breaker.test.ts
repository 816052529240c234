import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { Breaker } from './servers.ts'

describe('the circuit breaker', () => {
  function opened() {
    const clock = new ManualClock()
    const breaker = new Breaker(clock)
    for (let i = 0; i < 3; i++) {
      expect(breaker.mayTry()).toBe(true)
      breaker.failed()
    }
    return { clock, breaker }
  }

  it('opens after three failures in a row', () => {
    const { breaker } = opened()
    expect(breaker.mayTry()).toBe(false)
  })

  it('forgets failures that a success interrupts', () => {
    const breaker = new Breaker(new ManualClock())
    for (const step of ['failed', 'failed', 'succeeded', 'failed', 'failed'] as const)
      breaker[step]()
    expect(breaker.mayTry()).toBe(true)
  })

  it('lets one command through after half a second, and all commands after its success', async () => {
    const { clock, breaker } = opened()
    await clock.advance(499)
    expect(breaker.mayTry()).toBe(false)
    await clock.advance(1)
    expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, false])
    breaker.succeeded()
    expect(breaker.mayTry()).toBe(true)
  })

  it('stays open for another half second if that one command fails', async () => {
    const { clock, breaker } = opened()
    await clock.advance(500)
    breaker.mayTry()
    breaker.failed()
    expect(breaker.mayTry()).toBe(false)
    await clock.advance(500)
    expect(breaker.mayTry()).toBe(true)
  })
})
