import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { steadyClock, systemClock } from './clock.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a timer of the system clock', () => {
  it('fires once after its delay', () => {
    const called = vi.fn()
    systemClock.setTimer(10, called)
    vi.advanceTimersByTime(9)
    expect(called).not.toHaveBeenCalled()
    vi.advanceTimersByTime(100)
    expect(called).toHaveBeenCalledOnce()
  })

  it('never fires after cancel(), which may be called twice', () => {
    const called = vi.fn()
    const timer = systemClock.setTimer(10, called)
    timer.cancel()
    timer.cancel()
    vi.advanceTimersByTime(100)
    expect(called).not.toHaveBeenCalled()
  })

  it.each([2 ** 31, 366 * 24 * 3600 * 1000, Number.POSITIVE_INFINITY])(
    'does not fire at once for %d ms, which setTimeout would treat as 1 ms',
    (delayMs) => {
      const called = vi.fn()
      systemClock.setTimer(delayMs, called).cancel
      vi.advanceTimersByTime(24 * 3600 * 1000)
      expect(called).not.toHaveBeenCalled()
    },
  )

  it('fires as soon as possible for a negative delay', () => {
    const called = vi.fn()
    systemClock.setTimer(-5, called)
    vi.advanceTimersByTime(1)
    expect(called).toHaveBeenCalledOnce()
  })
})

describe('the steady clock', () => {
  function setUp() {
    const clocks = { monotonic: 5_000.25, wall: 1_700_000_000_000, readings: 0 }
    const now = steadyClock(
      () => clocks.monotonic,
      () => {
        clocks.readings += 1
        return clocks.wall
      },
    )
    /** Both clocks advance, and the wall clock by `more`. */
    const pass = (ms: number, more = 0) => {
      clocks.monotonic += ms
      clocks.wall += ms + more
    }
    return { clocks, now, pass }
  }

  it('returns whole milliseconds of the monotonic clock', () => {
    const { now, pass } = setUp()
    expect(now()).toBe(5_000)
    pass(1.5)
    expect(now()).toBe(5_001)
  })

  it('advances by the wall clock while the machine is suspended', () => {
    const { now, pass } = setUp()
    now()
    pass(3, 20_000)
    expect(now()).toBe(25_003)
    pass(2)
    expect(now()).toBe(25_005)
    pass(1, 500)
    expect(now()).toBe(25_506)
  })

  it('does not go back when the wall clock is set back', () => {
    const { now, pass } = setUp()
    now()
    pass(3, -3_600_000)
    expect(now()).toBe(5_003)
    pass(2)
    expect(now()).toBe(5_005)
    pass(1, 20_000)
    expect(now()).toBe(25_006)
  })

  it('does not add up rounding differences', () => {
    const { now, pass } = setUp()
    for (let i = 0; i < 1_000; i++) pass(1, i % 2 === 0 ? 9 : -9)
    expect(now()).toBe(6_000)
    for (let i = 0; i < 1_000; i++) {
      pass(1, i % 2 === 0 ? 9 : -9)
      now()
    }
    expect(now()).toBe(7_000)
  })

  it('does not run ahead when the process is interrupted between the readings of both clocks', () => {
    const clocks = { at: 0, interruptions: 0 }
    const read = () => clocks.at
    const wall = () => {
      if (clocks.interruptions > 0) {
        clocks.interruptions -= 1
        clocks.at += 300
      }
      return clocks.at
    }
    const now = steadyClock(read, wall)
    for (let i = 0; i < 20; i++) {
      clocks.at += 1
      clocks.interruptions = 1
      expect(now()).toBeLessThanOrEqual(clocks.at)
    }
    expect(now()).toBe(clocks.at)
  })

  it('reads the wall clock once a millisecond', () => {
    const { clocks, now, pass } = setUp()
    clocks.readings = 0
    for (let i = 0; i < 100; i++) now()
    expect(clocks.readings).toBe(1)
    pass(1)
    now()
    expect(clocks.readings).toBe(2)
  })

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
