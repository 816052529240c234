import { beforeEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../testing/index.ts'
import { type Deadline, Deadlines } from './deadlines.ts'

let clock: ManualClock
let deadlines: Deadlines
let due: string[]

beforeEach(() => {
  clock = new ManualClock()
  deadlines = new Deadlines(clock)
  due = []
})

const add = (name: string, inMs: number) => deadlines.set(() => due.push(name), clock.now() + inMs)

describe('deadlines on one timer', () => {
  it('are due in time, for any order in which they were added', async () => {
    add('late', 300)
    add('soon', 100)
    add('next', 200)
    expect(clock.timers).toBe(1)
    await clock.advance(99)
    expect(due).toEqual([])
    await clock.advance(1)
    expect(due).toEqual(['soon'])
    await clock.advance(200)
    expect(due).toEqual(['soon', 'next', 'late'])
    expect(clock.timers).toBe(0)
  })

  it('are due in time after the machine was suspended with a later deadline open', async () => {
    add('late', 60_000)
    clock.stall(120_000)
    add('soon', 100)
    await clock.advance(100)
    expect(due).toEqual(['late', 'soon'])
  })

  it('are dropped when they are stopped', async () => {
    add('a', 100)
    deadlines.stop()
    expect(clock.timers).toBe(0)
    await clock.advance(200)
    expect(due).toEqual([])
  })

  it('are due in order after any additions and ends of 10 000, without a scan of all', async () => {
    const open = new Set<Deadline>()
    let seed = 1
    const random = (n: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % n
    }
    const at: number[] = []
    for (let i = 0; i < 10_000; i++) {
      const due = clock.now() + 1 + random(1_000)
      open.add(deadlines.set(() => at.push(due), due))
      const [first] = open
      if (random(3) > 0 || first === undefined) continue
      deadlines.end(first)
      open.delete(first)
    }
    expect(deadlines.size).toBe(open.size)
    let reads = 0
    for (const deadline of open) {
      const value = deadline.at
      const get = () => {
        reads += 1
        return value
      }
      Object.defineProperty(deadline, 'at', { get })
    }
    await clock.advance(2_000)
    expect(at).toHaveLength(open.size)
    expect(at).toEqual(at.toSorted((a, b) => a - b))
    expect(reads).toBeLessThan(open.size * 100)
  })
})
