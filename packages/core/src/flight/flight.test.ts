import { describe, expect, it } from 'vitest'
import { createStampede } from '../stampede.ts'

/** An origin that says when it is asked, and answers when it is told to. */
function createGate<T>() {
  let open: (value: T) => void = () => {}
  let reach: () => void = () => {}
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const value = new Promise<T>((resolve) => {
    open = resolve
  })
  const passed = (): Promise<T> => {
    reach()
    return value
  }
  return { reached, open, passed }
}

describe('a crowd that waits for one key', () => {
  it('is answered in the order in which it came, a hundred in a turn of the event loop', async () => {
    const stampede = createStampede()
    const options = { ttlMs: 60_000 }
    const origin = createGate<string>()
    let turn = 0
    const turns: number[] = []
    const order: number[] = []
    const ask = (n: number) =>
      stampede
        .getOrSet('k', () => origin.passed(), options)
        .then((value) => {
          order.push(n)
          turns[turn] = (turns[turn] ?? 0) + 1
          return value
        })
    const count = (): void => {
      turn += 1
      if (order.length < 1_001) setImmediate(count)
    }
    const crowd = Array.from({ length: 1_001 }, (_, n) => ask(n))
    await origin.reached
    origin.open('v')
    setImmediate(count)
    expect(new Set(await Promise.all(crowd))).toEqual(new Set(['v']))
    // The first one ran the factory itself.
    expect(order.slice(1)).toEqual(order.slice(1).toSorted((a, b) => a - b))
    expect(Math.max(...turns.filter(Boolean))).toBeLessThanOrEqual(101)
    await stampede.close()
  })
})
