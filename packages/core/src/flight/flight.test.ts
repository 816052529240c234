import { describe, expect, it } from 'vitest'
import { heldEntry } from '../entry/entry.ts'
import { Events } from '../events.ts'
import { createStampede } from '../stampede.ts'
import { ManualClock } from '../testing/index.ts'
import { entry, LIVES, POLICY } from '../testing/resolve-bench.ts'
import { Flight } from './flight.ts'
import type { Caller } from './resolution.ts'

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
})

const rt = { clock: new ManualClock(), events: new Events(), flights: new Map() }
const PREVIOUS = heldEntry(entry, '1', LIVES, 0)
const CALLER: Caller = {
  lead: async () => ({ type: 'abandoned' }),
  refresh: async () => ({ type: 'abandoned' }),
}
const none = () => {}

/** A function that creates a flight, for each state of a flight. */
const STATES = {
  'looking-up': () => new Flight('k', POLICY),
  waiting: () => after((flight) => flight.beginWait(rt, none)),
  queued: () => after((flight) => flight.beginQueue(none)),
  filling: () => after((flight) => flight.beginFill(rt)),
  refreshing: () => after((flight) => flight.beginFill(rt, PREVIOUS)),
  landed: () => after((flight) => flight.land(rt)),
}
type StateName = keyof typeof STATES
const NAMES = Object.keys(STATES) as StateName[]

function after(act: (flight: Flight) => void): Flight {
  const flight = new Flight('k', POLICY)
  act(flight)
  return flight
}

interface Transition {
  readonly act: (flight: Flight) => unknown
  readonly from: readonly StateName[]
  readonly to?: StateName
}

const ALIVE = NAMES.filter((name) => name !== 'landed')
const TRANSITIONS: Readonly<Record<string, Transition>> = {
  beginLookup: { act: (flight) => flight.beginLookup(rt), from: ['looking-up'] },
  endLookup: { act: (flight) => flight.endLookup(false), from: ['looking-up'] },
  beginWait: { act: (flight) => flight.beginWait(rt, none), from: ['looking-up'], to: 'waiting' },
  beginQueue: { act: (flight) => flight.beginQueue(none), from: ['looking-up'], to: 'queued' },
  stayQueued: { act: (flight) => flight.stayQueued(rt), from: ['queued'] },
  beginFill: {
    act: (flight) => flight.beginFill(rt),
    from: ['looking-up', 'queued'],
    to: 'filling',
  },
  'beginFill with an entry to serve': {
    act: (flight) => flight.beginFill(rt, PREVIOUS),
    from: ['looking-up'],
    to: 'refreshing',
  },
  fillingSince: { act: (flight) => flight.fillingSince, from: ['filling', 'refreshing'] },
  becomeLate: {
    act: (flight) => flight.becomeLate('soft-timeout'),
    from: ['waiting', 'filling', 'refreshing'],
  },
  join: { act: (flight) => void flight.join(rt, CALLER, 1_000), from: ALIVE },
  lookUpAgain: { act: (flight) => flight.lookUpAgain(), from: ALIVE, to: 'looking-up' },
  land: { act: (flight) => flight.land(rt), from: ALIVE, to: 'landed' },
}

describe('a flight', () => {
  for (const [name, { act, from, to }] of Object.entries(TRANSITIONS)) {
    it.each(NAMES)(`allows ${name} only in the states ${from.join(', ')} (%s)`, (state) => {
      const flight = STATES[state]()
      if (!from.includes(state)) {
        expect(() => act(flight)).toThrow(`it is ${state}`)
        expect(flight.state).toBe(state)
        return
      }
      act(flight)
      expect(flight.state).toBe(to ?? state)
    })
  }

  it('has only the data that is valid in its state', () => {
    const flight = STATES.refreshing()
    expect(flight.servedMeanwhile).toBe(PREVIOUS)
    flight.becomeLate('soft-timeout')
    expect(flight.late).toBe('soft-timeout')
    flight.lookUpAgain()
    expect(flight.servedMeanwhile).toBeUndefined()
    expect(flight.late).toBeUndefined()
  })

  it('drops the request for another lookup when the next lookup begins', () => {
    const flight = STATES['looking-up']()
    flight.beginLookup(rt)
    flight.requestLookup('gap')
    expect(flight.isOutdated).toBe(true)
    flight.beginLookup(rt)
    expect(flight.isOutdated).toBe(false)
  })

  it('ends its wait for a fill on a wake-up, and its wait for a slot only on a gap', () => {
    const heard: string[] = []
    const waiting = after((flight) => flight.beginWait(rt, (by) => heard.push(by)))
    waiting.wakeUp()
    const queued = after((flight) => flight.beginQueue(() => heard.push('queue')))
    queued.wakeUp()
    queued.requestLookup('lost')
    queued.requestLookup('gap')
    expect(heard).toEqual(['wake-up', 'queue'])
  })
})
