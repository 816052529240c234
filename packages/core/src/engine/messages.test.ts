// Tests of purges before, during and after a fill, and of purges that may have been missed.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runtimeOf } from '../stampede.ts'
import { type ScriptedOrigin, settled } from '../testing/index.ts'
import { resolve } from '../testing/resolve.ts'
import {
  begin,
  begun,
  clock,
  end,
  FAILURE,
  KEY,
  microtasks,
  NO_L1,
  outcome,
  PASS,
  POLICY,
  STEPS,
  STORE,
  scripted,
  setUp,
  setUpTwo,
  transcript,
} from '../testing/resolve-bench.ts'
import { refuse } from '../testing/store-doubles.ts'

beforeEach(begin)
afterEach(end)

describe('a purge', () => {
  /** Checks that a request after the purge gets the value of a run that began after the purge. */
  async function askAfter(
    purged: Promise<void>,
    get: () => Promise<unknown>,
    origin: ScriptedOrigin<unknown>,
    known: number,
  ) {
    await purged
    const after = outcome(get())
    for (let i = 0; i < 4; i++) {
      await settled()
      for (const run of origin.runs.slice(known)) run.resolve('new')
    }
    await settled()
    return after.now
  }

  it.each(STEPS)(
    'gives later requests a new value, %d microtasks after a lookup was sent',
    async (steps) => {
      const { get, origin, stampede, fill } = setUp(NO_L1)
      await fill('old', { ttlMs: 30_000 })
      const early = outcome(get())
      await microtasks(steps)
      expect(await askAfter(stampede.purge({ key: 'k' }), get, origin, 1)).toBe('new')
      expect(early.now).not.toBe('pending')
    },
  )

  it.each(STEPS)(
    'gives later requests a new value, %d microtasks after the lookup of a stale entry was sent',
    async (steps) => {
      const { get, origin, stampede, fill } = setUp(NO_L1)
      const swr = { staleWhileRevalidateMs: 30_000 }
      await fill('old', swr)
      await clock.advance(1_500)
      const early = outcome(get(swr))
      await microtasks(steps)
      const purged = stampede.purge({ key: 'k' })
      expect(await askAfter(purged, () => get(swr), origin, 1)).toBe('new')
      expect(early.now).not.toBe('pending')
    },
  )

  it.each(STEPS)(
    'gives later requests a new value, %d microtasks after the origin ended',
    async (steps) => {
      const { get, origin, stampede } = setUp(NO_L1)
      const early = [get(), get()].map(outcome)
      await settled()
      origin.run(0).resolve('old')
      await microtasks(steps)
      expect(await askAfter(stampede.purge({ key: 'k' }), get, origin, 1)).toBe('new')
      expect(early.map(({ now }) => now)).not.toContain('pending')
    },
  )

  it.each(STEPS)(
    'keeps the old value out of L1, %d microtasks after the origin ended',
    async (steps) => {
      const { get, origin, stampede } = setUp()
      const early = await begun(get())
      origin.run(0).resolve('old')
      await microtasks(steps)
      expect(await askAfter(stampede.purge({ key: 'k' }), get, origin, 1)).toBe('new')
      expect(early.now).toBe('old')
    },
  )

  it.each(
    (
      [
        [false, {}],
        [false, NO_L1],
        [true, {}],
      ] as const
    ).flatMap(([isAway, l1]) => STEPS.map((steps) => [steps, isAway, l1] as const)),
  )(
    'by tag that is soft leads to one new run, %d microtasks after the origin ended: store away %s, %j',
    async (steps, isAway, l1) => {
      const { get, origin, stampede, store } = setUp(l1)
      const tagged = () => get({ tags: ['t'], staleWhileRevalidateMs: 30_000 })
      if (isAway) store.next('lookup', refuse)
      const early = [tagged(), tagged()].map(outcome)
      await settled()
      origin.run(0).resolve('old')
      await microtasks(steps)
      const after = await askAfter(stampede.purge({ tag: 't' }, { soft: true }), tagged, origin, 1)
      expect(['old', 'new']).toContain(after)
      expect(await tagged()).toBe('new')
      expect(origin.calls).toBe(2)
      expect(early.map(({ now }) => now)).not.toContain('pending')
    },
  )

  it.each([true, false])(
    'may be missed in a gap, so no older value replaces the failure of a running refresh: %s',
    async (hasGap) => {
      const { get, origin, store, fill } = setUp()
      const sie = { staleIfErrorMs: 60_000 }
      await fill('old', sie)
      await clock.advance(1_500)
      const asked = [outcome(get(sie)), outcome(get(sie))]
      await settled()
      if (hasGap) store.hooks.onForget(0)
      await origin.run(1).reject(new Error('down'))
      expect(asked[0]?.now).toBe(hasGap ? 'down' : 'old')
      for (const run of origin.runs.slice(2)) run.resolve('new')
      await settled()
      expect(asked[1]?.now).not.toBe(hasGap ? 'old' : 'pending')
    },
  )

  it.each(STEPS)(
    'leaves no request without a result when the fills around it end %d microtasks apart',
    async (steps) => {
      const { rt, stampede, store } = setUp(NO_L1)
      const { caller, origin } = scripted()
      const ask = () => outcome(Promise.resolve(resolve(rt, KEY, POLICY, caller)))
      const asked = [ask(), ask()]
      await settled()
      await stampede.purge({ key: 'k' })
      asked.push(ask(), ask())
      await settled()
      expect(origin.calls).toBe(2)
      store.calls.length = 0
      origin.run(1).resolve(FAILURE)
      await microtasks(steps)
      await origin.run(0).resolve(STORE)
      for (const run of origin.runs) run.resolve(STORE)
      await settled()
      expect(asked.filter(({ now }) => now === 'pending')).toEqual([])
    },
  )

  it('ends a hit-for-miss marker, so the next run may be stored', async () => {
    const { rt, stampede } = setUp()
    const { caller, origin, lead } = scripted()
    for (const _ of [0, 1]) await lead(rt, PASS)
    await clock.advance(100)
    const observed = resolve(rt, KEY, POLICY, caller)
    expect(resolve(rt, KEY, POLICY, caller)).toMatchObject({ type: 'pass' })
    await settled()
    await stampede.purge({ key: 'k' })
    // Requests after the purge wait again. The result of the run from before it is not stored.
    const second = [1, 2].map(() => resolve(rt, KEY, POLICY, caller))
    await settled()
    origin.run(2).resolve(STORE)
    expect(await observed).toMatchObject({ type: 'led' })
    await settled()
    origin.run(3).resolve(STORE)
    const types = (await Promise.all(second)).map(({ type }) => type)
    expect(types).toEqual(['led', 'hit'])
  })

  it.each(STEPS)(
    'is not undone by a reply with a hit-for-miss marker, %d microtasks after the lookup was sent',
    async (steps) => {
      const { a, b } = setUpTwo()
      const own = scripted()
      for (const _ of [0, 1]) await own.lead(runtimeOf(a), PASS)
      const other = scripted()
      void resolve(runtimeOf(b), KEY, POLICY, other.caller)
      await microtasks(steps)
      await b.purge({ key: 'k' })
      await settled()
      expect(runtimeOf(b).l1.get(KEY)).toBeUndefined()
      for (const run of other.origin.runs) run.resolve(STORE)
      await settled()
    },
  )

  it('counts as one refused fill for waiters that move to a newer flight', async () => {
    const { get, origin, stampede } = setUp()
    const [leader, waiter] = [get(), get()].map(outcome)
    await settled()
    await stampede.purge({ key: 'k' })
    const newcomer = await begun(get())
    await origin.run(0).resolve('first')
    await stampede.purge({ key: 'k' })
    await origin.run(1).resolve('second')
    // The waiter came before the first fill. It gets the third value, not the outdated second one.
    expect([leader?.now, newcomer.now, waiter?.now]).toEqual(['first', 'second', 'pending'])
    await origin.run(2).resolve('third')
    expect(waiter?.now).toBe('third')
  })

  it('lets a waiter of another process lead the next fill', async () => {
    const { getA, getB, b, originA, originB } = setUpTwo()
    const first = getA()
    await settled()
    const second = getB()
    await settled()
    transcript.take()
    await b.purge({ key: 'k' })
    await settled()
    originB.run(0).resolve('new')
    expect(await second).toBe('new')
    originA.run(0).resolve('old')
    expect(await first).toBe('old')
    await settled()
    const lines = transcript.take()
    expect(lines).toContain('b: wait.ended by wake-up')
    expect(lines).toContain('a: fill.fenced')
  })
})

describe('purges that may have been missed', () => {
  it('make followers of a fill look up again, while the caller of the fill gets the value', async () => {
    const { get, origin, store } = setUp()
    const first = get()
    await settled()
    store.hooks.onForget(0)
    const second = get()
    await settled()
    origin.run(0).resolve('v')
    expect(await Promise.all([first, second])).toEqual(['v', 'v'])
    expect(origin.calls).toBe(1)
    expect(transcript.take()).toEqual([
      'lease.granted',
      'fill.started',
      'bus.gap',
      'wait.started',
      'wait.ended by wake-up',
      'fill.committed',
      'hit l2',
    ])
  })
})
