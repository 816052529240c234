import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Undos } from './undo.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Rejects until the test says that the server is back. Counts calls. */
function attempts() {
  const seen = { count: 0, isBack: false }
  const attempt = async () => {
    seen.count += 1
    if (!seen.isBack) throw new Error('away')
  }
  return { seen, attempt }
}

describe('the undo of a command', () => {
  it('is repeated until it succeeds, while the effect of the command may last', async () => {
    const undos = new Undos()
    const { seen, attempt } = attempts()
    undos.start('t', 30_000, attempt)
    await vi.advanceTimersByTimeAsync(20_000)
    seen.isBack = true
    const before = seen.count
    await vi.advanceTimersByTimeAsync(2_000)
    expect(seen.count).toBe(before + 1)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(seen.count).toBe(before + 1)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is not repeated after the effect of the command has ended by itself', async () => {
    const undos = new Undos()
    const { seen, attempt } = attempts()
    undos.start('t', 3_000, attempt)
    await vi.advanceTimersByTimeAsync(5_000)
    const most = seen.count
    await vi.advanceTimersByTimeAsync(60_000)
    expect([most, seen.count]).toEqual([5, 5])
    expect(vi.getTimerCount()).toBe(0)
  })
})
