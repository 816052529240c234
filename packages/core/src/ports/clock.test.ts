import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from './clock.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a timer', () => {
  it('calls once after its delay', () => {
    const called = vi.fn()
    systemClock.setTimer(10, called)
    vi.advanceTimersByTime(9)
    expect(called).not.toHaveBeenCalled()
    vi.advanceTimersByTime(100)
    expect(called).toHaveBeenCalledOnce()
  })

  it('that is cancelled does not call, and may be cancelled again', () => {
    const called = vi.fn()
    const timer = systemClock.setTimer(10, called)
    timer.cancel()
    timer.cancel()
    vi.advanceTimersByTime(100)
    expect(called).not.toHaveBeenCalled()
  })

  it.each([2 ** 31, 366 * 24 * 3600 * 1000, Number.POSITIVE_INFINITY])(
    'of %d ms, which setTimeout would take for none, does not call at once',
    (delayMs) => {
      const called = vi.fn()
      systemClock.setTimer(delayMs, called).cancel
      vi.advanceTimersByTime(24 * 3600 * 1000)
      expect(called).not.toHaveBeenCalled()
    },
  )

  it('of less than nothing calls as soon as it may', () => {
    const called = vi.fn()
    systemClock.setTimer(-5, called)
    vi.advanceTimersByTime(1)
    expect(called).toHaveBeenCalledOnce()
  })
})

describe('now', () => {
  it('never goes back', () => {
    vi.useRealTimers()
    let last = systemClock.now()
    for (let i = 0; i < 1_000; i++) {
      const now = systemClock.now()
      expect(now).toBeGreaterThanOrEqual(last)
      last = now
    }
  })
})
