// Tests of find: two processes, stale entries, and a store that is unavailable.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type StoredResponse, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { messageOf } from '../errors.ts'
import type { StampedeOptions } from '../index.ts'
import { runtimeOf } from '../stampede.ts'
import { forgeFrame, keyDigest, settled } from '../testing/index.ts'
import { resolve } from '../testing/resolve.ts'
import {
  begin,
  begun,
  clock,
  end,
  KEY,
  LIVES,
  NO_L1,
  outcome,
  PASS,
  POLICY,
  STORE,
  scripted,
  setUp,
  setUpTwo,
  transcript,
} from '../testing/resolve-bench.ts'
import { refuse, throwAtOnce } from '../testing/store-doubles.ts'
import type { Policy } from './types.ts'

const RESPONSE: StoredResponse = {
  ...{ type: 'response', status: 200, fields: [], body: Buffer.from('page') },
  ...{ initialAgeMs: 0, vary: [], provenance: UNKNOWN_PROVENANCE },
}

beforeEach(begin)
afterEach(end)

describe('two processes', () => {
  it('fill a key once: one runs the factory, and the other is woken and looks up the entry', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = getA()
    await settled()
    const rest = [getB(), getB()]
    await settled()
    originA.run(0).resolve('v')
    expect(await Promise.all([first, ...rest])).toEqual(['v', 'v', 'v'])
    expect(originB.calls).toBe(0)
    expect(transcript.take()).toEqual([
      'a: lease.granted',
      'a: fill.started',
      'b: wait.started',
      'a: fill.committed',
      'b: wait.ended by wake-up',
      'b: hit l2',
      'b: hit l2',
    ])
    await getB()
    expect(transcript.take()).toEqual(['b: hit l1'])
  })

  it('send two store commands for a miss, for any number of waiters', async () => {
    const { getA, getB, originA, storeA, storeB } = setUpTwo()
    const all = [getA()]
    await settled()
    for (let i = 0; i < 100; i++) all.push(getA(), getB())
    await settled()
    originA.run(0).resolve('v')
    await Promise.all(all)
    expect(storeA.calls).toEqual([`lookup ${KEY}`, `commit ${KEY}`])
    expect(storeB.calls).toEqual([`lookup ${KEY}`, `lookup ${KEY}`])
  })

  it('agree when an entry becomes stale, because a copy in L1 keeps its age', async () => {
    const { getB, fillA, fillB } = setUpTwo()
    await fillA('old')
    await clock.advance(900)
    expect(await getB()).toBe('old')
    await clock.advance(100)
    expect(await fillB('new')).toBe('new')
  })

  it('wait for a dead holder until its lease ends, and the store refuses its late commit', async () => {
    const { getA, getB, originA, originB, storeA } = setUpTwo()
    const options = { leaseMs: 600 }
    const first = getA(options)
    await settled()
    storeA.always = refuse
    const second = getB(options)
    await clock.advance(606)
    expect(originB.calls).toBe(1)
    originB.run(0).resolve('new')
    expect(await second).toBe('new')
    storeA.always = undefined
    originA.run(0).resolve('late')
    expect(await first).toBe('late')
    await settled()
    expect(await getA(options)).toBe('new')
    expect(transcript.take()).toEqual([
      'a: lease.granted',
      'a: fill.started',
      'b: wait.started',
      'b: wait.ended by lease-end',
      'b: lease.granted',
      'b: fill.started',
      'b: fill.committed',
      'a: fill.fenced',
      'a: hit l2',
    ])
  })

  it('run a slow factory once, because its lease is renewed', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = getA({ leaseMs: 600 })
    await settled()
    const second = getB({ leaseMs: 600 })
    await clock.advance(5_000)
    expect(originB.calls).toBe(0)
    originA.run(0).resolve('v')
    expect(await Promise.all([first, second])).toEqual(['v', 'v'])
    expect(transcript.take()).not.toContain('a: lease.lost')
  })

  it('serve a stale value at once, while one process refreshes the entry', async () => {
    const { getA, getB, originA, originB, storeB, fillA } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000 }
    await fillA('old', swr)
    await getB(swr)
    await clock.advance(1_500)
    transcript.take()
    expect(await getA(swr)).toBe('old')
    await settled()
    expect(await getB(swr)).toBe('old')
    await settled()
    storeB.calls.length = 0
    for (let i = 0; i < 5; i++) {
      expect(await getB(swr)).toBe('old')
      await settled()
    }
    expect(storeB.calls).toEqual([])
    await originA.run(1).resolve('new')
    expect(await getB(swr)).toBe('old')
    await settled()
    expect(await getB(swr)).toBe('new')
    expect(originB.calls).toBe(0)
  })

  it('share a failure, and run the factory again only after the back-off', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = await begun(getA().catch(messageOf))
    const second = await begun(getB().catch(messageOf))
    await originA.run(0).reject(new Error('down'))
    expect(first.now).toBe('down')
    expect(second.now).toBe(
      'the factory of "k" failed in another call: down; retry after failureBackoffMs',
    )
    const third = await begun(getA().catch(messageOf))
    expect(third.now).toBe(
      'the factory of "k" failed in another call: down; retry after failureBackoffMs',
    )
    expect(originA.calls + originB.calls).toBe(1)
    expect(transcript.take()).toEqual([
      'a: lease.granted',
      'a: fill.started',
      'b: wait.started',
      'a: fill.failed',
      'b: wait.ended by wake-up',
      'b: failure.shared',
      'a: failure.shared',
    ])
  })

  it('do not share a failure that no caller waited for', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = await begun(getA())
    await originA.run(0).reject(new Error('down'))
    const second = await begun(getB())
    await originB.run(0).reject(new Error('still down'))
    expect([first.now, second.now]).toEqual(['down', 'still down'])
  })

  it('retry a failing refresh once per back-off, while all callers get the stale entry', async () => {
    const { getA, getB, originA, originB, fillA } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000 }
    await fillA('old', swr)
    await getB(swr)
    await clock.advance(12_000)
    expect(await getA(swr)).toBe('old')
    await settled()
    await originA.run(1).reject(new Error('down'))
    for (const get of [getA, getB, getA, getB]) {
      expect(await get(swr)).toBe('old')
      await settled()
    }
    expect([originA.calls, originB.calls]).toEqual([2, 0])
  })

  it('drop an entry that one process purges, and the store refuses the earlier fill', async () => {
    const { getA, getB, b, originA, originB } = setUpTwo()
    const first = getA()
    await settled()
    await b.purge({ key: 'k' })
    const second = getB()
    await settled()
    originA.run(0).resolve('old')
    expect(await first).toBe('old')
    originB.run(0).resolve('new')
    expect(await second).toBe('new')
    expect(await getA()).toBe('new')
  })

  it('let requests for a hit-for-miss key run in parallel until a response is stored', async () => {
    const { a, b, storeA, storeB } = setUpTwo()
    const own = scripted('k')
    const other = scripted('k')
    for (const _ of [0, 1]) await own.lead(runtimeOf(a), PASS)
    await clock.advance(100)
    const second = resolve(runtimeOf(b), 'k', POLICY, other.caller)
    await settled()
    // The request in process b has the lease now. In both processes, no request waits for it.
    expect(other.origin.calls).toBe(1)
    for (const store of [storeA, storeB]) store.calls.length = 0
    const pass = { type: 'pass', reason: 'hit-for-miss' }
    for (let i = 0; i < 3; i++) {
      expect(resolve(runtimeOf(b), 'k', POLICY, other.caller)).toEqual(pass)
      expect(await resolve(runtimeOf(a), 'k', POLICY, own.caller)).toEqual(pass)
    }
    expect([storeA.calls, storeB.calls]).toEqual([['lookup k'], []])
    other.origin.run(0).resolve({ ...STORE, entry: RESPONSE })
    expect(await second).toMatchObject({ type: 'led' })
    await settled()
    expect(resolve(runtimeOf(b), 'k', POLICY, other.caller)).toMatchObject({ type: 'hit' })
    await clock.advance(100)
    expect(await resolve(runtimeOf(a), 'k', POLICY, own.caller)).toMatchObject({ type: 'hit' })
    expect(own.origin.calls).toBe(2)
  })

  it('look up a hit-for-miss key at most every 100 ms', async () => {
    const { rt, store } = setUp()
    const { caller, lead } = scripted('k')
    const runOnce = async () => {
      store.calls.length = 0
      await lead(rt, PASS)
      return store.calls
    }
    // The first response may have been for one client only, so the next run has the lease at once.
    for (const _ of [0, 1]) expect(await runOnce()).toEqual(['lookup k', 'pass k'])
    store.calls.length = 0
    for (const advancedMs of [0, 99]) {
      await clock.advance(advancedMs)
      const pass = { type: 'pass', reason: 'hit-for-miss' }
      expect(await resolve(rt, 'k', POLICY, caller)).toEqual(pass)
    }
    expect(store.calls).toEqual([])
    await clock.advance(1)
    expect(await runOnce()).toEqual(['lookup k', 'pass k'])
  })
})

describe('a stale entry', () => {
  const SWR = { staleWhileRevalidateMs: 2_000 }

  async function filled(options: StampedeOptions, windows: object) {
    const set = setUp(options)
    const first = set.get(windows)
    await settled()
    set.origin.run(0).resolve('old')
    await first
    await clock.advance(1_500)
    transcript.take()
    return set
  }

  it.each([{}, NO_L1])(
    'is not served after its stale window, however long the refresh takes (%j)',
    async (l1) => {
      const { get, origin } = await filled(l1, SWR)
      expect(await get(SWR)).toBe('old')
      await clock.advance(1_499)
      expect(await get(SWR)).toBe('old')
      await clock.advance(1)
      const late = await begun(get(SWR))
      expect(late.now).toBe('pending')
      expect(origin.calls).toBe(2)
      await origin.run(1).resolve('new')
      expect(late.now).toBe('new')
    },
  )

  it('is refreshed again only after the back-off if the refresh was abandoned', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted('k')
    const lives = { ...LIVES, staleWhileRevalidateMs: 30_000, physicalMs: 40_000 }
    const ask = async () => {
      const resolution = await resolve(rt, 'k', POLICY, caller)
      await settled()
      return resolution
    }
    const first = ask()
    await settled()
    origin.run(0).resolve({ ...STORE, lifetimes: lives })
    await first
    await clock.advance(1_500)
    await ask()
    await origin.run(1).resolve({ type: 'abandoned' })
    for (let i = 0; i < 3; i++) expect(await ask()).toMatchObject({ type: 'hit', stale: true })
    expect(origin.calls).toBe(2)
    await clock.advance(1_000)
    await ask()
    expect(origin.calls).toBe(3)
    await origin.run(2).resolve(STORE)
  })

  it('counts as a hit for a waiter after the store refused the fill of its own process', async () => {
    const { a, getA, originA, storeA, fillB } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000, leaseMs: 600, jitter: 0 }
    const [leader, waiter] = [getA(swr), getA(swr)].map(outcome)
    await settled()
    storeA.next('renew', async () => [false])
    await clock.advance(700)
    await fillB('v', swr)
    await clock.advance(1_500)
    storeA.hooks.onForget(0)
    expect(await getA(swr)).toBe('v')
    await settled()
    transcript.take()
    await originA.run(0).resolve('late')
    expect([leader?.now, waiter?.now]).toEqual(['late', 'v'])
    expect(transcript.take()).toEqual(['a: fill.fenced', 'a: hit l2 stale'])
    expect(a.stats().hits).toEqual({ l1: 0, l2: 2 })
    await originA.run(1).resolve('new')
  })

  it('is served while the store is unavailable, and one request refreshes it', async () => {
    const swr = { staleWhileRevalidateMs: 30_000 }
    const { get, origin, store } = await filled({}, swr)
    store.always = refuse
    expect(await Promise.all([get(swr), get(swr)])).toEqual(['old', 'old'])
    await settled()
    expect(origin.calls).toBe(2)
    await origin.run(1).resolve('new')
    expect(await get(swr)).toBe('new')
    expect(transcript.take()).toContain('fill.started behind unleased')
  })

  it('is served to all clients but one during a foreground refresh', async () => {
    const { rt } = setUp()
    const { caller, origin, leads, lead } = scripted('k')
    const policy: Policy = { ...POLICY, revalidate: 'foreground' }
    const lives = { ...LIVES, staleWhileRevalidateMs: 30_000, physicalMs: 40_000 }
    await lead(rt, { ...STORE, lifetimes: lives }, policy)
    await clock.advance(1_500)
    transcript.take()
    const all = [1, 2].map(() => Promise.resolve(resolve(rt, 'k', policy, caller)))
    const outcomes = all.map(outcome)
    await settled()
    expect(outcomes.map(({ now }) => (now as { type?: string }).type)).toEqual([undefined, 'hit'])
    expect(resolve(rt, 'k', policy, caller)).toMatchObject({ type: 'hit', stale: true })
    expect(leads[1]?.previous).toBeDefined()
    await origin.run(1).resolve(STORE)
    expect(outcomes[0]?.now).toMatchObject({ type: 'led' })
    expect(transcript.take()).toEqual(['lease.granted', 'fill.started', 'fill.committed'])
  })

  it('is served to all clients but one if a foreground refresh hangs', async () => {
    const { rt } = setUp()
    const { caller, origin, lead } = scripted('k')
    const policy: Policy = { ...POLICY, revalidate: 'foreground' }
    const lives = { ...LIVES, staleWhileRevalidateMs: 30_000, physicalMs: 40_000 }
    await lead(rt, { ...STORE, lifetimes: lives }, policy)
    await clock.advance(1_500)
    const leader = outcome(Promise.resolve(resolve(rt, 'k', policy, caller)))
    await clock.advance(3_000)
    expect(leader.now).toBe('pending')
    expect(resolve(rt, 'k', policy, caller)).toMatchObject({ type: 'hit', stale: true })
    await origin.run(1).resolve(STORE)
    expect(leader.now).toMatchObject({ type: 'led' })
  })
})

describe('a process while the store is unavailable', () => {
  it.each([
    ['rejects', refuse],
    ['throws', throwAtOnce],
  ])(
    'runs the origin once for all callers, and keeps the result in L1: the store %s',
    async (_, fault) => {
      const { get, origin, store } = setUp()
      store.always = fault
      const all = [get(), get(), get()]
      await settled()
      origin.run(0).resolve('v')
      expect(await Promise.all(all)).toEqual(['v', 'v', 'v'])
      expect(await get()).toBe('v')
      expect(origin.calls).toBe(1)
      expect(transcript.take()).toEqual(['store.failed lookup', 'fill.started unleased', 'hit l1'])
    },
  )

  it('remembers that a key is hit-for-miss', async () => {
    const { rt, store } = setUp()
    store.always = refuse
    const { caller, origin } = scripted('k')
    for (const run of [0, 1]) {
      const all = [1, 2].map(() => resolve(rt, 'k', POLICY, caller))
      await settled()
      origin.run(run).resolve(PASS)
      await Promise.all(all)
      expect(transcript.take()).toContain('fill.passed set-cookie')
    }
    const pass = { type: 'pass', reason: 'hit-for-miss' }
    expect(await resolve(rt, 'k', POLICY, caller)).toEqual(pass)
    expect(resolve(rt, 'k', POLICY, caller)).toEqual(pass)
  })

  it('needs no concurrency slot for a key that the store called hit-for-miss', async () => {
    const { rt, store } = setUp({ originConcurrency: 1 })
    const { caller, lead } = scripted('k')
    for (const _ of [0, 1]) await lead(rt, PASS)
    await clock.advance(100)
    store.always = refuse
    const pass = { type: 'pass', reason: 'hit-for-miss' }
    for (let i = 0; i < 3; i++) expect(await resolve(rt, 'k', POLICY, caller)).toEqual(pass)
  })

  it('stops using values from the outage 5 s after the store is back', async () => {
    const { get, origin, store, fill } = setUp()
    store.always = refuse
    await fill('v', { ttlMs: 30_000 })
    store.always = undefined
    await clock.advance(5_000)
    const second = await begun(get({ ttlMs: 30_000 }))
    expect(second.now).toBe('pending')
    await origin.run(1).resolve('w')
    expect(second.now).toBe('w')
  })
})

describe('a copy in L1 of an entry that the store no longer has', () => {
  it('is dropped when the store replies, and waiting callers get the new value', async () => {
    const { getA, getB, originB, a, b, storeA, fillA } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000 }
    await fillA('old', swr)
    await clock.advance(1_500)
    // Process a does not receive the purge of process b, which already fills the key again.
    const hooks = { ...storeA.hooks }
    Object.assign(storeA.hooks, { onPurge: () => {} })
    await b.purge({ key: 'k' })
    Object.assign(storeA.hooks, hooks)
    const filling = getB(swr)
    await settled()
    await getA(swr)
    await settled()
    storeA.calls.length = 0
    const waiting = [getA(swr), getA(swr)].map(outcome)
    await settled()
    originB.run(0).resolve('new')
    await filling
    await settled()
    expect(waiting.map(({ now }) => now)).toEqual(['new', 'new'])
    expect(a.stats().active.flights).toBe(0)
  })
})

describe('an invalid reply of the store', () => {
  it.each([
    ['a frame that cannot be parsed', Buffer.from('rubbish')],
    [
      'a frame of invalid JSON',
      forgeFrame('{"p":0,"d":0,"t":[]}', { kind: 2, body: '{"price":', digest: keyDigest(KEY) }),
    ],
  ])('counts as a miss if it is %s, and the entry is replaced', async (_, frame) => {
    const { get, origin, store } = setUp(NO_L1)
    const reply = await store.lookup(KEY, { token: 't', leaseMs: 500 })
    if (reply.status !== 'leased') throw new Error(reply.status)
    await store.commit(reply.grant, frame, { ...LIVES, freshMs: 30_000 })
    const all = [get(), get()].map(outcome)
    await settled()
    expect(origin.calls).toBe(1)
    await origin.run(0).resolve('v')
    expect(all.map(({ now }) => now)).toEqual(['v', 'v'])
    expect(await get()).toBe('v')
  })

  it('counts as an unavailable store if its form is unknown', async () => {
    const { store, fill } = setUp()
    store.next('lookup', async () => undefined)
    expect(await fill('v')).toBe('v')
    expect(transcript.take()).toEqual(['store.failed lookup', 'fill.started unleased'])
  })
})
