import { describe, expect, it } from 'vitest'
import { createStampede, runtimeOf } from '../stampede.ts'
import { ManualClock } from '../testing/index.ts'
import { microtasks, POLICY } from '../testing/resolve-bench.ts'
import { Flight } from './flight.ts'
import type { Caller } from './types.ts'

/**
 * An origin that waits in each call until the test calls `open`. `reached` resolves with a call.
 */
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

describe('many waiters of one key', () => {
  it('get the value in order of arrival, at most a hundred per turn of the event loop', async () => {
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
    // The first caller ran the factory itself.
    expect(order.slice(1)).toEqual(order.slice(1).toSorted((a, b) => a - b))
    expect(Math.max(...turns.filter(Boolean))).toBeLessThanOrEqual(101)
    await stampede.close()
  })

  it.each([
    ['its key', { key: 'k' }, false],
    ['its key, soft', { key: 'k' }, true],
    ['its tag', { tag: 't' }, false],
    ['another key', { key: 'other' }, false],
  ] as const)('get no entry that was purged before their turn: %s', async (name, target, soft) => {
    const stampede = createStampede()
    const origin = createGate<string>()
    const runs: string[] = []
    const run = () => {
      runs.push(runs.length === 0 ? 'old' : 'new')
      return runs.length === 1 ? origin.passed() : 'new'
    }
    const got: string[] = []
    const ask = () =>
      stampede.getOrSet('k', run, { ttlMs: 60_000, tags: ['t'] }).then((value) => got.push(value))
    const crowd = Array.from({ length: 301 }, ask)
    await origin.reached
    origin.open('old')
    await microtasks(50)
    const before = got.length
    expect(before).toBe(101)
    await stampede.purge(target, { soft })
    await Promise.all(crowd)
    const isOutdated = name !== 'another key'
    expect(runs).toEqual(isOutdated ? ['old', 'new'] : ['old'])
    expect(got.slice(before).filter((value) => value === 'old')).toHaveLength(isOutdated ? 0 : 200)
    expect(stampede.stats().active.flights).toBe(0)
    await stampede.close()
  })
})

const none = () => {}

class IdleFlight extends Flight {
  override act = none
  override advance = none
  override resume = none
  override isPurged = () => false
}

/** A runtime, and a function that creates a flight in it and calls `act`. */
function setUp() {
  const clock = new ManualClock()
  const rt = runtimeOf(createStampede({ clock }))
  const ends: string[] = []
  const make = (act: (flight: Flight) => void = none) => {
    const flight = new IdleFlight(rt, 'k', POLICY)
    act(flight)
    return flight
  }
  const join = (flight: Flight, name: string, waitMs: number) => {
    const since = clock.now()
    const answer: Caller['answer'] = ({ type }) => {
      ends.push(`${name} ${type} ${clock.now() - since}`)
    }
    flight.join({ answer, run: none }, waitMs)
  }
  return { rt, clock, ends, make, join }
}

describe('a flight', () => {
  it('ends its wait for a fill on a wake-up, and its wait for a slot only on a gap', () => {
    const { make } = setUp()
    const heard: string[] = []
    make((flight) => flight.beginWait('waiting', (by) => heard.push(by))).wakeUp()
    const queued = make((flight) => flight.beginWait('queued', (by) => heard.push(`queue ${by}`)))
    queued.wakeUp()
    queued.interrupt('lost')
    queued.interrupt('gap')
    expect(heard).toEqual(['wake-up', 'queue gap'])
  })

  it('leaves the queue for a slot when its last waiter has gone', () => {
    const { make, join } = setUp()
    const heard: string[] = []
    const flight = make()
    join(flight, 'a', 30)
    flight.beginWait('queued', (by) => heard.push(by))
    flight.settleAll({ type: 'gone' })
    expect(heard).toEqual(['wake-up'])
  })
})

describe('waiters of a flight', () => {
  it('time out after their own waitMs, in any order of joining', async () => {
    const { rt, clock, ends, make, join } = setUp()
    const flight = make((each) => each.startClocks())
    join(flight, 'a', 100)
    join(flight, 'b', 30)
    await clock.advance(20)
    join(flight, 'c', 30)
    join(flight, 'd', 80)
    await clock.advance(200)
    const seen = ['b timed-out 30', 'c timed-out 30', 'a timed-out 100', 'd timed-out 80']
    expect(ends).toEqual(seen)
    expect([rt.events.count('wait.timed-out'), flight.size, clock.timers]).toEqual([4, 0, 0])
  })

  it('count their waitMs from the end of the first lookup', async () => {
    const { clock, ends, make, join } = setUp()
    const flight = make()
    join(flight, 'a', 30)
    await clock.advance(50)
    expect([ends, clock.timers]).toEqual([[], 0])
    flight.startClocks()
    await clock.advance(29)
    expect(ends).toEqual([])
    await clock.advance(1)
    expect(ends).toEqual(['a timed-out 80'])
  })

  it('time out although a listener of the event adds another waiter', async () => {
    const { rt, clock, ends, make, join } = setUp()
    const flight = make((each) => each.startClocks())
    const off = rt.events.on('wait.timed-out', () => {
      off()
      join(flight, 'late', 30)
    })
    for (const name of ['a', 'b', 'c']) join(flight, name, 30)
    await clock.advance(100)
    const seen = ['a timed-out 30', 'b timed-out 30', 'c timed-out 30', 'late timed-out 30']
    expect(ends).toEqual(seen)
  })

  it('do not time out once they lead', async () => {
    const { clock, ends, make, join } = setUp()
    const flight = make((each) => each.startClocks())
    join(flight, 'a', 30)
    await clock.advance(10)
    join(flight, 'b', 30)
    if (flight.first !== undefined) flight.takeOut(flight.first)
    await clock.advance(50)
    expect([ends, flight.size]).toEqual([['b timed-out 30'], 0])
  })

  it('keep the rest of their waitMs when they move to another flight', async () => {
    const { clock, ends, make, join } = setUp()
    const flight = make((each) => each.startClocks())
    join(flight, 'a', 30)
    join(flight, 'b', 50)
    await clock.advance(10)
    const other = make()
    flight.moveTo(other)
    expect([flight.size, other.size, clock.timers]).toEqual([0, 2, 1])
    await clock.advance(100)
    expect(ends).toEqual(['a timed-out 30', 'b timed-out 50'])
    expect([other.size, clock.timers]).toEqual([0, 0])
  })

  it('keep the rest of their waitMs when they look up again in another flight', async () => {
    const { clock, ends, make, join } = setUp()
    const flight = make((each) => each.startClocks())
    join(flight, 'a', 30)
    await clock.advance(10)
    const { first } = flight
    if (first === undefined) throw new Error('no waiter')
    flight.takeOut(first)
    await clock.advance(10)
    make().takeIn([first])
    await clock.advance(100)
    expect(ends).toEqual(['a timed-out 30'])
  })

  it('begin to count when they move to a flight whose first lookup has ended', async () => {
    const { clock, ends, make, join } = setUp()
    const flight = make()
    join(flight, 'a', 90)
    flight.moveTo(make((each) => each.startClocks()))
    await clock.advance(100)
    expect(ends).toEqual(['a timed-out 90'])
  })
})
