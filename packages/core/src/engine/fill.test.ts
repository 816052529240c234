// Tests of the end of a fill, for the client of the leader and for waiters.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Runtime } from '../runtime.ts'
import { runtimeOf, type Stampede } from '../stampede.ts'
import { settled } from '../testing/index.ts'
import { resolve, type ScriptedCaller } from '../testing/resolve.ts'
import {
  begin,
  begun,
  clock,
  create,
  end,
  FAILURE,
  KEY,
  LIVES,
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
import { FaultyStore, refuse } from '../testing/store-doubles.ts'
import type { FillResult, Policy } from './types.ts'

beforeEach(begin)
afterEach(end)

const twice = (stampede: Stampede): [Runtime, Runtime] => {
  const rt = runtimeOf(stampede)
  return [rt, rt]
}

describe('a fill', () => {
  const ENDS: Array<[string, FillResult, string, string]> = [
    ['stored', STORE, 'hit', 'fill.committed'],
    ['not shareable', PASS, 'pass', 'fill.passed set-cookie'],
    ['failed', FAILURE, 'failed', 'fill.failed'],
  ]

  it.each(ENDS)(
    'gives all requests a result and releases its lease if the result is %s',
    async (_, result, type, event) => {
      const { rt, stampede } = setUp()
      const { caller, origin } = scripted()
      // After one response that is not shareable, the next waiter leads.
      const runs = result === PASS ? [0, 1] : [0]
      const all = [1, 2, 3].map(() => resolve(rt, 'k', POLICY, caller))
      for (const run of runs) {
        await settled()
        origin.run(run).resolve(result)
      }
      const types = (await Promise.all(all)).map((resolution) => resolution.type)
      expect(types).toEqual(['led', result === PASS ? 'led' : type, type])
      await settled()
      expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
      expect(transcript.take()).toEqual(
        runs.flatMap(() => ['lease.granted', 'fill.started', event]),
      )
    },
  )

  it('makes the next waiter lead after one response that is not shareable', async () => {
    const { rt, store } = setUp()
    const { caller, origin } = scripted()
    const all = Array.from({ length: 1_000 }, () => resolve(rt, KEY, POLICY, caller))
    await settled()
    await origin.run(0).resolve(PASS)
    origin.run(1).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led', ...Array(998).fill('hit')])
    expect(origin.calls).toBe(2)
    const sent = store.calls.map((call) => call.split(' ')[0])
    expect(sent).toEqual(['lookup', 'pass', 'lookup', 'commit'])
  })

  describe.each<[string, () => [first: Runtime, next: Runtime]]>([
    ['in memory', () => twice(create(undefined))],
    ['in one process with a store', () => twice(create(new FaultyStore()))],
    [
      'in two processes',
      () => {
        const { a, b } = setUpTwo()
        return [runtimeOf(a), runtimeOf(b)]
      },
    ],
  ])('that is not shareable and has no waiters, %s', (_where, open) => {
    /** Runs the origin once, alone. */
    async function runAlone(rt: Runtime, result: FillResult, policy: Policy = POLICY) {
      const { lead } = scripted()
      await lead(rt, result, policy)
    }

    it('lets later requests wait for each other after the first such response', async () => {
      const [first, next] = open()
      await runAlone(first, PASS)
      const { caller, origin } = scripted()
      const all = [1, 2, 3].map(() => resolve(next, KEY, POLICY, caller))
      await settled()
      origin.run(0).resolve(STORE)
      const types = (await Promise.all(all)).map((resolution) => resolution.type)
      expect([types, origin.calls]).toEqual([['led', 'hit', 'hit'], 1])
    })

    it('makes later requests run in parallel after the second in a row', async () => {
      const [first, next] = open()
      await runAlone(first, PASS)
      await runAlone(next, PASS)
      const { caller } = scripted()
      const all = await Promise.all([1, 2].map(() => resolve(next, KEY, POLICY, caller)))
      const pass = { type: 'pass', reason: 'hit-for-miss' }
      expect(all).toEqual([pass, pass])
    })

    it('forgets the first such response when an entry is stored', async () => {
      const [first, next] = open()
      await runAlone(first, PASS)
      await runAlone(next, STORE)
      await clock.advance(1_100)
      await runAlone(first, PASS)
      await runAlone(next, STORE)
    })

    it('ends stale-while-revalidate of the entry, and stores the next response', async () => {
      const [first, next] = open()
      const windows = { freshMs: 1_000, staleWhileRevalidateMs: 5_000, physicalMs: 9_000 }
      await runAlone(first, { ...STORE, lifetimes: { ...LIVES, ...windows } })
      await clock.advance(1_100)
      const { caller, origin } = scripted()
      expect(await resolve(first, KEY, POLICY, caller)).toMatchObject({ type: 'hit', stale: true })
      await settled()
      await origin.run(0).resolve(PASS)
      await runAlone(next, STORE)
      expect(await resolve(next, KEY, POLICY, caller)).toMatchObject({ type: 'hit', stale: false })
    })

    /** The entry that the next run may serve in place of an error, after `results`. */
    async function previousAfter(results: FillResult[], policy: Policy = POLICY) {
      const [first, next] = open()
      const windows = { staleWhileRevalidateMs: 2_000, staleIfErrorMs: 60_000 }
      const lifetimes = { ...LIVES, ...windows, physicalMs: 70_000 }
      await runAlone(first, { ...STORE, lifetimes })
      await clock.advance(3_100)
      for (const result of results) {
        await runAlone(first, result, policy)
        await clock.advance(10_100)
      }
      const { leads, lead } = scripted()
      await lead(next, FAILURE)
      return leads[0]?.previous
    }

    it('keeps an entry for stale-if-error until the second such response in a row', async () => {
      expect(await previousAfter([PASS])).toBeDefined()
      // More than `passMs` apart.
      expect(await previousAfter([PASS, PASS])).toBeUndefined()
    })

    it('keeps no entry with a soft timeout, which would serve it for a slow run', async () => {
      expect(await previousAfter([PASS], { ...POLICY, softTimeoutMs: 100 })).toBeUndefined()
    })

    it('drops the entry of a page that is gone', async () => {
      const gone: FillResult = {
        ...{ type: 'pass', reason: 'no-store', remember: true },
        dropsPrevious: true,
      }
      expect(
        await previousAfter([{ type: 'pass', reason: 'status', remember: true }]),
      ).toBeUndefined()
      expect(await previousAfter([gone])).toBeUndefined()
    })

    it('keeps the entry that a waiter may serve if its own run fails', async () => {
      const [first] = open()
      const lifetimes = { ...LIVES, staleIfErrorMs: 60_000, physicalMs: 70_000 }
      await runAlone(first, { ...STORE, lifetimes })
      await clock.advance(1_100)
      const { caller, origin, leads } = scripted()
      const all = [1, 2].map(() => resolve(first, KEY, POLICY, caller))
      await settled()
      await origin.run(0).resolve(PASS)
      origin.run(1).resolve(FAILURE)
      await Promise.all(all)
      expect(leads[1]?.previous).toBeDefined()
    })

    it('serves no stale entry after such a refresh, except in place of an error', async () => {
      const [first] = open()
      const windows = { staleWhileRevalidateMs: 9_000, staleIfErrorMs: 0, physicalMs: 70_000 }
      await runAlone(first, { ...STORE, lifetimes: { ...LIVES, ...windows } })
      await clock.advance(1_100)
      const { caller, origin, leads } = scripted()
      expect(await resolve(first, KEY, POLICY, caller)).toMatchObject({ type: 'hit', stale: true })
      await settled()
      await origin.run(0).resolve(PASS)
      const next = await begun(Promise.resolve(resolve(first, KEY, POLICY, caller)))
      expect([next.now, leads[1]?.previous !== undefined]).toEqual(['pending', true])
      await origin.run(1).resolve(STORE)
    })
  })

  it('forgets a first response that is not shareable after a while, without a store', async () => {
    const rt = runtimeOf(create(undefined))
    for (const waitMs of [10_000, 0]) {
      const { lead } = scripted()
      await lead(rt, PASS)
      await clock.advance(waitMs)
    }
    const { caller, origin } = scripted()
    const all = [1, 2].map(() => resolve(rt, KEY, POLICY, caller))
    await settled()
    origin.run(0).resolve(STORE)
    expect((await Promise.all(all)).map(({ type }) => type)).toEqual(['led', 'hit'])
  })

  it('does not wait for more than two responses that are not shareable, in two processes', async () => {
    const { a, b } = setUpTwo()
    const [own, other] = [scripted(), scripted()]
    const inA = [1, 2, 3].map(() => resolve(runtimeOf(a), KEY, POLICY, own.caller))
    await settled()
    const inB = [1, 2, 3].map(() => resolve(runtimeOf(b), KEY, POLICY, other.caller))
    await settled()
    await own.origin.run(0).resolve(PASS)
    // One process leads again, and the other waits for it.
    const second = [own.origin.runs[1], other.origin.runs[0]].filter((run) => run !== undefined)
    expect(second).toHaveLength(1)
    second[0]?.resolve(PASS)
    await settled()
    await clock.advance(1)
    // The first waiter of the other process has the lease of the hit-for-miss key.
    for (const run of [...own.origin.runs, ...other.origin.runs]) run?.resolve(PASS)
    const types = (await Promise.all([...inA, ...inB])).map((resolution) => resolution.type)
    expect(types.filter((type) => type === 'pass')).toHaveLength(3)
  })

  it.each([
    ['one waiter leads, and the others get its entry', STORE, 'hit', 2],
    ['all waiters lead after a second such response', PASS, 'pass', 3],
  ] as const)(
    'is followed by the run of one waiter of another process if it is not shareable: %s',
    async (_, second, type, runs) => {
      const { a, b } = setUpTwo()
      const [own, other] = [scripted(), scripted()]
      const alone = resolve(runtimeOf(a), KEY, POLICY, own.caller)
      await settled()
      const inB = [1, 2, 3].map(() => resolve(runtimeOf(b), KEY, POLICY, other.caller))
      await settled()
      await own.origin.run(0).resolve(PASS)
      await clock.advance(1)
      expect(other.origin.calls).toBe(1)
      // A new request of the first process waits, too.
      const later = resolve(runtimeOf(a), KEY, POLICY, own.caller)
      await settled()
      expect(own.origin.calls).toBe(1)
      await other.origin.run(0).resolve(second)
      await clock.advance(1)
      // The lease of a hit-for-miss key goes to one of the requests.
      for (const run of [...own.origin.runs, ...other.origin.runs]) run?.resolve(second)
      const types = (await Promise.all([alone, ...inB, later])).map((each) => each.type)
      expect(types.filter((each) => each === 'led')).toHaveLength(runs)
      expect(types.filter((each) => each === type)).toHaveLength(5 - runs)
    },
  )

  it('keeps no series of requests waiting for each other if no response is shareable', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const all = [resolve(rt, KEY, POLICY, caller), resolve(rt, KEY, POLICY, caller)]
    await settled()
    await origin.run(0).resolve(PASS)
    all.push(resolve(rt, KEY, POLICY, caller), resolve(rt, KEY, POLICY, caller))
    await settled()
    origin.run(1).resolve(PASS)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led', 'pass', 'pass'])
  })

  it('makes the next waiter run the origin if it is abandoned, and all waiters after three tries', async () => {
    const { rt, stampede } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2, 3, 4, 5].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    for (const run of [0, 1, 2]) {
      expect(origin.calls).toBe(run + 1)
      await origin.run(run).resolve({ type: 'abandoned' })
    }
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led', 'led', 'pass', 'pass'])
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
  })

  it('makes waiters lead one after the other if each leaving client ends the fill', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2, 3, 4, 5, 6].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    for (const run of [0, 1, 2, 3]) {
      expect(origin.calls).toBe(run + 1)
      await origin.run(run).resolve({ type: 'abandoned', clientLeft: true })
    }
    origin.run(4).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led', 'led', 'led', 'led', 'hit'])
  })

  it('is not led by a waiter whose client has left', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const gone: ScriptedCaller = { ...caller, isGone: () => true }
    const all = [caller, gone, caller].map((each) => resolve(rt, 'k', POLICY, each))
    await settled()
    await origin.run(0).resolve({ type: 'abandoned', clientLeft: true })
    origin.run(1).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'gone', 'led'])
  })

  it('lets a waiter try once more if it is abandoned while the store is unavailable', async () => {
    const { rt, store } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    store.always = refuse
    await origin.run(0).resolve({ type: 'abandoned' })
    expect(origin.calls).toBe(2)
    origin.run(1).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led'])
  })

  it.each(ENDS)(
    'gives a second result to a follower that calls again at once after the fill was %s',
    async (_, result) => {
      const { rt } = setUp(NO_L1)
      const { caller, origin } = scripted()
      void resolve(rt, 'k', POLICY, caller)
      const follower = Promise.resolve(resolve(rt, 'k', POLICY, caller))
      const again = await begun(follower.then(() => resolve(rt, 'k', POLICY, caller)))
      await origin.run(0).resolve(result)
      for (const run of [1, 2]) {
        origin.runs[run]?.resolve(result)
        await settled()
      }
      expect(again.now).not.toBe('pending')
    },
  )

  describe.each([
    ['with the store', false],
    ['without the store', true],
  ])('a fill %s', (_how, isAway) => {
    it.each(ENDS)(
      'gives a result to each request that arrives while the fill ends as %s',
      async (_, result) => {
        const { rt, store } = setUp(NO_L1)
        if (isAway) store.always = refuse
        const { caller, origin } = scripted()
        const asked: Array<{ now: unknown }> = []
        const ask = () => asked.push(outcome(Promise.resolve(resolve(rt, 'k', POLICY, caller))))
        ask()
        await settled()
        origin.run(0).resolve(result)
        for (const _step of STEPS) {
          ask()
          await Promise.resolve()
        }
        for (let i = 0; i < STEPS.length; i++) {
          await settled()
          for (const run of origin.runs) run.resolve(result)
        }
        await settled()
        expect(asked.filter(({ now }) => now === 'pending')).toEqual([])
      },
    )
  })

  it('gives a result to each request that arrives during the commit of a fresh entry', async () => {
    const { rt } = setUp(NO_L1)
    const { caller, origin } = scripted()
    void resolve(rt, KEY, POLICY, caller)
    await settled()
    await origin.run(0).resolve({ ...STORE, lifetimes: { ...LIVES, freshMs: 30_000 } })
    const asked: Array<{ now: unknown }> = []
    for (const _step of STEPS) {
      asked.push(outcome(Promise.resolve(resolve(rt, KEY, POLICY, caller))))
      await Promise.resolve()
    }
    await settled()
    expect(asked.filter(({ now }) => now === 'pending')).toEqual([])
  })

  it('fails for waiters after originTimeoutMs, while its own caller gets the late result', async () => {
    const { rt, stampede } = setUp()
    const { caller, origin, leads } = scripted()
    const leader = outcome(Promise.resolve(resolve(rt, 'k', POLICY, caller)))
    const follower = outcome(Promise.resolve(resolve(rt, 'k', POLICY, caller)))
    await clock.advance(2_999)
    expect(follower.now).toBe('pending')
    expect(leads[0]?.signal.aborted).toBe(false)
    await clock.advance(1)
    expect(follower.now).toMatchObject({ type: 'failed', failure: { status: 504 } })
    expect(leads[0]?.signal.aborted).toBe(true)
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
    expect(leader.now).toBe('pending')
    await origin.run(0).resolve(STORE)
    expect(leader.now).toMatchObject({ type: 'led' })
    expect(rt.l1.get('k')).toBeUndefined()
    expect(transcript.take()).toEqual(['lease.granted', 'fill.started', 'fill.failed'])
  })

  it.each([
    ['rejects', () => Promise.reject(new Error('a broken adapter'))],
    [
      'throws',
      () => {
        throw new Error('a broken adapter')
      },
    ],
  ])('leaves no request pending if its caller %s, which callers must not do', async (_, run) => {
    const { rt, stampede } = setUp()
    const broken: ScriptedCaller = { lead: run, refresh: run }
    const all = [1, 2].map(() => Promise.resolve(resolve(rt, 'k', POLICY, broken)))
    const outcomes = all.map(outcome)
    await settled()
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
    expect(outcomes.filter(({ now }) => now === 'pending')).toEqual([])
  })

  it.each([
    ['an object without a prototype', Object.create(null)],
    ['an error whose message is no string', Object.assign(new Error(), { message: { code: 5 } })],
    ['a symbol', Symbol('s')],
    ['undefined', undefined],
  ])(
    'rejects for its own caller with the same value that the factory throws: %s',
    async (_, thrown) => {
      const { get, origin } = setUp()
      const leader = get().catch((error: unknown) => ({ thrown: error }))
      const follower = outcome(get())
      const seen: { now: unknown } = { now: 'pending' }
      void leader.then((value) => {
        seen.now = value
      })
      await settled()
      await origin.run(0).reject(thrown)
      expect(seen.now).toEqual({ thrown })
      expect(follower.now).not.toBe('pending')
    },
  )
})
