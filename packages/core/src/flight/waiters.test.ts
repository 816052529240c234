// Tests of `waitMs` for each waiter of a flight, with one timer for all waiters.

import { describe, expect, it } from 'vitest'
import { Events } from '../events.ts'
import { ManualClock } from '../testing/index.ts'
import type { Caller } from './resolution.ts'
import { type Waiter, Waiters } from './waiters.ts'

function setUp() {
  const clock = new ManualClock()
  const rt = { clock, events: new Events() }
  const ends: string[] = []
  let emptied = 0
  const group = () => new Waiters('k', () => (emptied += 1))
  const waiters = group()
  const join = (name: string, waitMs: number) => {
    const since = clock.now()
    const told = ({ type }: { type: string }) => ends.push(`${name} ${type} ${clock.now() - since}`)
    void waiters.join(rt, {} as Caller, waitMs).then(told)
  }
  return { clock, rt, ends, waiters, group, join, emptied: () => emptied }
}

describe('waiters of a flight', () => {
  it('time out after their own waitMs, in any order of joining', async () => {
    const { clock, rt, ends, waiters, join, emptied } = setUp()
    waiters.startClocks(rt)
    join('a', 100)
    join('b', 30)
    await clock.advance(20)
    join('c', 30)
    join('d', 80)
    await clock.advance(200)
    const seen = ['b timed-out 30', 'c timed-out 30', 'a timed-out 100', 'd timed-out 80']
    expect(ends).toEqual(seen)
    expect([rt.events.count('wait.timed-out'), emptied(), clock.timers]).toEqual([4, 1, 0])
  })

  it('count their waitMs from the end of the first lookup', async () => {
    const { clock, rt, ends, waiters, join } = setUp()
    join('a', 30)
    await clock.advance(50)
    expect([ends, clock.timers]).toEqual([[], 0])
    waiters.startClocks(rt)
    await clock.advance(29)
    expect(ends).toEqual([])
    await clock.advance(1)
    expect(ends).toEqual(['a timed-out 80'])
  })

  it('share one timer, which is removed once they are settled', async () => {
    const { clock, rt, waiters, join } = setUp()
    waiters.startClocks(rt)
    for (let i = 0; i < 1_000; i++) join('w', 30)
    expect(clock.timers).toBe(1)
    waiters.settleAll({ type: 'pass', reason: 'abandoned' })
    expect(clock.timers).toBe(0)
  })

  it('time out one by one, without a scan of all others each time', async () => {
    const { clock, rt, ends, waiters, join } = setUp()
    waiters.startClocks(rt)
    let reads = 0
    for (let i = 0; i < 100; i++) {
      join('w', 200)
      await clock.advance(1)
    }
    const all: Array<Waiter & { endsAt?: number }> = [...waiters]
    for (const waiter of all) {
      const { endsAt } = waiter
      const get = () => {
        reads += 1
        return endsAt
      }
      Object.defineProperty(waiter, 'endsAt', { get })
    }
    await clock.advance(200)
    expect(ends).toEqual(Array.from({ length: 100 }, () => 'w timed-out 200'))
    expect(reads).toBeLessThan(1_000)
  })

  it('time out although a listener of the event adds another waiter', async () => {
    const { clock, rt, ends, waiters, join } = setUp()
    waiters.startClocks(rt)
    const off = rt.events.on('wait.timed-out', () => {
      off()
      join('late', 30)
    })
    for (const name of ['a', 'b', 'c']) join(name, 30)
    await clock.advance(100)
    const seen = ['a timed-out 30', 'b timed-out 30', 'c timed-out 30', 'late timed-out 30']
    expect(ends).toEqual(seen)
  })

  it('time out after the machine was suspended while a longer wait was open', async () => {
    const { clock, rt, ends, waiters, join } = setUp()
    waiters.startClocks(rt)
    join('long', 60_000)
    clock.stall(120_000)
    join('short', 100)
    await clock.advance(100)
    expect(ends).toEqual(['long timed-out 120000', 'short timed-out 100'])
  })

  it('keep their timer when the waiter with the shortest waitMs becomes the leader', async () => {
    const { clock, rt, ends, waiters, join } = setUp()
    waiters.startClocks(rt)
    join('a', 30)
    await clock.advance(10)
    join('b', 30)
    waiters.takeLeader()
    await clock.advance(29)
    expect(ends).toEqual([])
    await clock.advance(1)
    expect(ends).toEqual(['b timed-out 30'])
    join('c', 30)
    waiters.takeLeader()
    expect(clock.timers).toBe(0)
  })

  it('time out although others moved to another flight before the first lookup ended', async () => {
    const { clock, rt, ends, waiters, group } = setUp()
    const others = group()
    others.startClocks(rt)
    const told = (name: string) => () => ends.push(`${name} ${clock.now()}`)
    void waiters.join(rt, {} as Caller, 90).then(told('a'))
    waiters.moveTo(rt, others)
    void others.join(rt, {} as Caller, 50).then(told('b'))
    await clock.advance(10)
    others.startClocks(rt)
    const since = clock.now()
    await clock.advance(100)
    expect(ends).toEqual([`b ${since + 40}`, `a ${since + 90}`])
  })

  it('keep the rest of their waitMs when they move to another flight', async () => {
    const { clock, rt, ends, waiters, group, join } = setUp()
    waiters.startClocks(rt)
    join('a', 30)
    join('b', 50)
    await clock.advance(10)
    const others = group()
    waiters.moveTo(rt, others)
    expect([waiters.size, others.size, clock.timers]).toEqual([0, 2, 1])
    await clock.advance(100)
    expect(ends).toEqual(['a timed-out 30', 'b timed-out 50'])
    expect([others.size, clock.timers]).toEqual([0, 0])
  })
})
