// The journey, by what happened in which order. Two processes are two Stampedes on one memory store.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type StoredEntry, UNKNOWN_ORIGIN } from '../entry/entry.ts'
import { createStampede, type Stampede, type StampedeOptions } from '../index.ts'
import { dataKey } from '../ports/key.ts'
import { runtimeOf } from '../stampede.ts'
import {
  forgeFrame,
  keyDigest,
  ManualClock,
  ScriptedOrigin,
  settled,
  Transcript,
} from '../testing/index.ts'
import { FaultyStore, Gate, loseReply, refuse, sharedStores } from '../testing/store-doubles.ts'
import type { Policy } from './policy.ts'
import type { Caller, FillResult, Lead } from './resolution.ts'
import { resolve } from './resolve.ts'

/** What getOrSet('k') is kept under. */
const KEY = dataKey('k')
const NO_L1 = { l1: { maxBytes: 0 } }

let clock: ManualClock
let transcript: Transcript
let open: Stampede[]

beforeEach(() => {
  clock = new ManualClock()
  transcript = new Transcript()
  open = []
})

/** Whatever a test did, nothing may be left of it: no flight, no lease, and no timer. */
afterEach(async () => {
  await clock.advance(60_000)
  for (const stampede of open) expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
  expect(clock.timers).toBe(0)
  await Promise.all(open.map((stampede) => stampede.close()))
})

function create(store: FaultyStore, options: StampedeOptions = {}, name = ''): Stampede {
  const stampede = createStampede({ store, clock, random: () => 0, ...options })
  open.push(stampede)
  transcript.record(stampede, name)
  return stampede
}

/** One process. */
function setUp(options: StampedeOptions = {}) {
  const store = new FaultyStore()
  const stampede = create(store, options)
  const origin = new ScriptedOrigin<unknown>()
  const get = (more = {}) => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000, ...more })
  return { store, stampede, origin, get, rt: runtimeOf(stampede) }
}

/** Two processes. */
function setUpTwo(options: StampedeOptions = {}) {
  const stores = sharedStores()
  const a = create(stores.a, options, 'a')
  const b = create(stores.b, options, 'b')
  const originA = new ScriptedOrigin<unknown>()
  const originB = new ScriptedOrigin<unknown>()
  const getA = (more = {}) => a.getOrSet('k', originA.factory, { ttlMs: 1_000, ...more })
  const getB = (more = {}) => b.getOrSet('k', originB.factory, { ttlMs: 1_000, ...more })
  return { a, b, originA, originB, getA, getB, storeA: stores.a, storeB: stores.b }
}

/** What became of a promise, without waiting for it. */
function outcome<T>(promise: Promise<T>): { now: unknown } {
  const box: { now: unknown } = { now: 'pending' }
  promise.then(
    (value) => {
      box.now = value
    },
    (error: unknown) => {
      box.now = error instanceof Error ? error.message : error
    },
  )
  return box
}

async function microtasks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await Promise.resolve()
}

const STEPS = Array.from({ length: 24 }, (_, i) => i)

describe('two processes', () => {
  it('fill once: the other one waits, is woken, and reads', async () => {
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

  it('spend two calls to the store on a miss, however many wait', async () => {
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

  it('agree on the end of freshness: an entry is promoted with the age it has', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = getA()
    await settled()
    originA.run(0).resolve('old')
    await first
    await clock.advance(900)
    expect(await getB()).toBe('old')
    await clock.advance(100)
    const late = getB()
    await settled()
    originB.run(0).resolve('new')
    expect(await late).toBe('new')
  })

  it('do not wait for a holder that died longer than for its lease, and then refuse its commit', async () => {
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

  it('keep a slow fill to one: its lease is renewed for as long as it lasts', async () => {
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

  it('answer stale at once in both, refresh in one, and ask nobody until it is done', async () => {
    const { getA, getB, originA, originB, storeB } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000 }
    const first = getA(swr)
    await settled()
    originA.run(0).resolve('old')
    await first
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
    originA.run(1).resolve('new')
    await settled()
    expect(await getB(swr)).toBe('old')
    await settled()
    expect(await getB(swr)).toBe('new')
    expect(originB.calls).toBe(0)
  })

  it('share a failure, its message and not its error, and both keep to the back-off', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = outcome(getA())
    await settled()
    const second = outcome(getB())
    await settled()
    originA.run(0).reject(new Error('down'))
    await settled()
    expect(first.now).toBe('down')
    expect(second.now).toBe('the origin of "k" failed: down')
    const third = outcome(getA())
    await settled()
    expect(third.now).toBe('the origin of "k" failed: down')
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

  it('share no failure that nobody waited for', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = outcome(getA())
    await settled()
    originA.run(0).reject(new Error('down'))
    await settled()
    const second = outcome(getB())
    await settled()
    originB.run(0).reject(new Error('still down'))
    await settled()
    expect([first.now, second.now]).toEqual(['down', 'still down'])
  })

  it('refresh what is stale once per back-off, if that fails: nobody waits, but many come', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000 }
    const first = getA(swr)
    await settled()
    originA.run(0).resolve('old')
    await first
    await getB(swr)
    await clock.advance(12_000)
    expect(await getA(swr)).toBe('old')
    await settled()
    originA.run(1).reject(new Error('down'))
    await settled()
    for (const get of [getA, getB, getA, getB]) {
      expect(await get(swr)).toBe('old')
      await settled()
    }
    expect([originA.calls, originB.calls]).toEqual([2, 0])
  })

  it('forget in both what one purged, and void the fill of the other', async () => {
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

  it('both mark a key hit-for-miss: one run may be stored, and no request waits for it', async () => {
    const { a, b, storeA, storeB } = setUpTwo()
    const own = scripted()
    const other = scripted()
    const first = resolve(runtimeOf(a), KEY, POLICY, own.caller)
    await settled()
    const second = resolve(runtimeOf(b), KEY, POLICY, other.caller)
    await settled()
    own.origin.run(0).resolve({ type: 'pass', reason: 'set-cookie', remember: true })
    expect(await first).toMatchObject({ type: 'led' })
    await settled()
    // The waiter in b has the lease now. Nobody waits for it, here or there.
    expect(other.origin.calls).toBe(1)
    for (const store of [storeA, storeB]) store.calls.length = 0
    const pass = { type: 'pass', reason: 'hit-for-miss' }
    for (let i = 0; i < 3; i++) {
      expect(resolve(runtimeOf(b), KEY, POLICY, other.caller)).toEqual(pass)
      expect(await resolve(runtimeOf(a), KEY, POLICY, own.caller)).toEqual(pass)
    }
    expect([storeA.calls, storeB.calls]).toEqual([[`lookup ${KEY}`], []])
    other.origin.run(0).resolve(STORE)
    expect(await second).toMatchObject({ type: 'led' })
    await settled()
    expect(resolve(runtimeOf(b), KEY, POLICY, other.caller)).toMatchObject({ type: 'hit' })
    await clock.advance(100)
    expect(await resolve(runtimeOf(a), KEY, POLICY, own.caller)).toMatchObject({ type: 'hit' })
    expect(own.origin.calls).toBe(1)
  })

  it('spend two store calls on each leased run of a hit-for-miss key', async () => {
    const { rt, store } = setUp()
    const { caller, origin } = scripted()
    for (let run = 0; run < 3; run++) {
      store.calls.length = 0
      const led = resolve(rt, 'k', POLICY, caller)
      await settled()
      origin.run(run).resolve(PASS)
      await led
      await settled()
      expect(store.calls).toEqual(['lookup k', 'pass k'])
    }
  })

  it('run a hit-for-miss key without asking for a lease while the store is away', async () => {
    const { rt, store } = setUp({ originConcurrency: 1 })
    const { caller, origin } = scripted()
    const first = resolve(rt, 'k', POLICY, caller)
    await settled()
    origin.run(0).resolve(PASS)
    await first
    await settled()
    store.always = refuse
    store.calls.length = 0
    const pass = { type: 'pass', reason: 'hit-for-miss' }
    for (let i = 0; i < 3; i++) expect(await resolve(rt, 'k', POLICY, caller)).toEqual(pass)
    expect(store.calls).toEqual(['lookup k'])
  })
})

describe('a wake-up', () => {
  it('that overtakes the reply it belongs to is not slept through', async () => {
    const { getA, getB, originA, storeB } = setUpTwo()
    const gate = new Gate()
    storeB.next('lookup', gate.delayReply)
    const first = getA()
    await settled()
    const second = outcome(getB())
    await settled()
    originA.run(0).resolve('v')
    await first
    await settled()
    gate.open()
    await settled()
    expect(second.now).toBe('v')
    expect(transcript.take()).not.toContain('b: wait.started')
  })

  it('that was lost is made up for when messages may have been lost', async () => {
    const { getA, getB, originA, storeB } = setUpTwo()
    const first = getA()
    await settled()
    const second = outcome(getB())
    await settled()
    storeB.hooks.onWake = () => {}
    transcript.take()
    // Both stores were told; the one of b is deaf.
    const deaf = storeB.hooks
    originA.run(0).resolve('v')
    await first
    await settled()
    deaf.onGap()
    await settled()
    expect(second.now).toBe('v')
  })

  it('that can no longer come makes those who wait go on without the store', async () => {
    const { getA, getB, originA, originB, storeB } = setUpTwo()
    const first = getA()
    await settled()
    const second = getB()
    await settled()
    storeB.always = refuse
    storeB.hooks.onLost()
    await settled()
    originB.run(0).resolve('own')
    expect(await second).toBe('own')
    originA.run(0).resolve('v')
    expect(await first).toBe('v')
    expect(transcript.take()).toEqual([
      'a: lease.granted',
      'a: fill.started',
      'b: wait.started',
      'b: wait.ended by lost',
      'b: store.failed lookup',
      'b: fill.started unleased',
      'a: fill.committed',
    ])
  })

  it('for a key that nobody asks for is no news', async () => {
    const { store, stampede } = setUp()
    store.hooks.onWake(KEY)
    store.hooks.onPurge(KEY, { soft: false })
    store.hooks.onGap()
    store.hooks.onLost()
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
    expect(store.calls).toEqual([])
  })
})

describe('waitMs', () => {
  it('spent sends the waiter to the origin by itself; its late value is for nobody else', async () => {
    const { getA, getB, originA, originB } = setUpTwo()
    const first = getA()
    await settled()
    const second = getB({ waitMs: 200 })
    await clock.advance(200)
    originB.run(0).resolve('own')
    expect(await second).toBe('own')
    originA.run(0).resolve('v')
    expect(await first).toBe('v')
    await settled()
    expect(await getB()).toBe('v')
    expect(transcript.take()).toEqual([
      'a: lease.granted',
      'a: fill.started',
      'b: wait.started',
      'b: wait.timed-out',
      'a: fill.committed',
      'b: wait.ended by wake-up',
      'b: hit l2',
    ])
  })

  it('bounds lookups of which a purge outdates each reply', async () => {
    const { get, origin, store } = setUp()
    const lookup = store.lookup.bind(store)
    store.lookup = async (...args) => {
      const reply = await lookup(...args)
      await new Promise<void>((done) => clock.setTimer(50, done))
      store.hooks.onPurge(KEY, { soft: false })
      return reply
    }
    const asked = outcome(get({ waitMs: 200 }))
    await clock.advance(251)
    expect(origin.calls).toBe(1)
    origin.run(0).resolve('own')
    await settled()
    expect(asked.now).toBe('own')
  })

  it('spent during a lookup that is given a refresh: the lease is given back', async () => {
    const { getA, getB, originA, originB, storeB } = setUpTwo()
    const options = { staleWhileRevalidateMs: 60_000 }
    const first = getA(options)
    await settled()
    let send = () => {}
    const sent = new Promise<void>((resolve) => {
      send = resolve
    })
    storeB
      .next('lookup', (work) => work())
      .next('lookup', async (work) => {
        await sent
        return work()
      })
    const second = getB({ ...options, waitMs: 200 })
    await settled()
    originA.run(0).resolve('v')
    expect(await first).toBe('v')
    await clock.advance(200)
    originB.run(0).resolve('own')
    expect(await second).toBe('own')
    await clock.advance(1_000)
    send()
    await settled()
    expect(storeB.calls.at(-1)).toBe(`fail ${KEY}`)
    // So another process can refresh at once.
    expect(await getA(options)).toBe('v')
    await settled()
    expect(originA.calls).toBe(2)
    originA.run(1).resolve('new')
    await settled()
  })

  it('is each waiter’s own, also after a purge moved them to another flight', async () => {
    const { get, origin, stampede } = setUp()
    const leader = get()
    const patient = outcome(get({ waitMs: 5_000 }))
    const hasty = outcome(get({ waitMs: 300 }))
    await settled()
    await stampede.purge({ key: 'k' })
    const newcomer = outcome(get())
    await settled()
    origin.run(0).resolve('old')
    expect(await leader).toBe('old')
    await clock.advance(300)
    expect(origin.calls).toBe(3)
    expect([patient.now, hasty.now, newcomer.now]).toEqual(['pending', 'pending', 'pending'])
    origin.run(1).resolve('new')
    origin.run(2).resolve('own')
    await settled()
    expect([patient.now, hasty.now, newcomer.now]).toEqual(['new', 'own', 'new'])
  })

  it.each([0, 10])(
    'of %d does not count while nobody else fills: a slow store is no fill',
    async (waitMs) => {
      const { get, origin, store } = setUp()
      const gate = new Gate()
      store.next('lookup', gate.delayReply)
      const first = outcome(get({ waitMs }))
      await clock.advance(50)
      gate.open()
      await settled()
      expect(origin.calls).toBe(1)
      origin.run(0).resolve('v')
      await settled()
      expect(first.now).toBe('v')
      expect(transcript.take()).toEqual(['lease.granted', 'fill.started', 'fill.committed'])
    },
  )

  it('spent by all does not leave a store that is away to each of them alone', async () => {
    const { get, origin, store } = setUp()
    const gate = new Gate()
    store.next('lookup', gate.delayAndLose)
    const asked = [get({ waitMs: 100 }), get({ waitMs: 100 }), get({ waitMs: 100 })].map(outcome)
    await clock.advance(250)
    gate.open()
    await settled()
    expect(origin.calls).toBe(1)
    for (const run of origin.runs) run.resolve('v')
    await settled()
    expect(asked.map(({ now }) => now)).toEqual(['v', 'v', 'v'])
  })
})

describe('a lease', () => {
  it('that comes when its caller has waited too long is used or given back, never left', async () => {
    const { getA, getB, originA, originB, storeA } = setUpTwo()
    const gate = new Gate()
    storeA.next('lookup', gate.delayReply)
    void getA({ waitMs: 100 })
    await clock.advance(100)
    gate.open()
    await settled()
    const second = outcome(getB())
    await settled()
    for (const run of [...originA.runs, ...originB.runs]) run.resolve('v')
    await settled()
    expect(second.now).toBe('v')
  })

  it('to refresh a stale entry that comes when nobody waits any more is given back', async () => {
    const { store, get, origin } = setUp(NO_L1)
    const swr = { staleWhileRevalidateMs: 60_000, leaseMs: 5_000, waitMs: 100 }
    const first = get(swr)
    await settled()
    origin.run(0).resolve('old')
    await first
    await clock.advance(1_500)
    const gate = new Gate()
    store.next('lookup', gate.delayReply)
    const hasty = outcome(get(swr))
    await clock.advance(100)
    gate.open()
    await settled()
    // Whoever asks next is given the lease, or finds a refresh under way: nobody waits for a dead one.
    const runs = origin.calls
    const next = outcome(get(swr))
    await settled()
    expect(next.now).toBe('old')
    expect(transcript.take()).toContain('fill.started behind')
    for (const run of origin.runs) run.resolve('new')
    await settled()
    expect(origin.calls).toBeGreaterThanOrEqual(runs)
    expect(hasty.now).not.toBe('pending')
  })

  it('granted by a reply that had to be checked again is given back when the check fails', async () => {
    const { getA, getB, originA, originB, storeA } = setUpTwo()
    const gate = new Gate()
    storeA.next('lookup', gate.delayReply).next('lookup', refuse)
    const first = getA({ leaseMs: 30_000 })
    await settled()
    storeA.hooks.onGap()
    gate.open()
    await settled()
    originA.run(0).resolve('own')
    expect(await first).toBe('own')
    await settled()
    const second = outcome(getB())
    await settled()
    originB.runs[0]?.resolve('v')
    await settled()
    expect(second.now).not.toBe('pending')
    await clock.advance(30_100)
    for (const run of originB.runs) run.resolve('v')
    await settled()
  })

  it('given back late does not end the lease that the same flight was given since', async () => {
    const { get, origin, store, stampede } = setUp({ originConcurrency: 1 })
    store.next('lookup', refuse)
    const busy = new ScriptedOrigin<unknown>()
    const other = stampede.getOrSet('other', busy.factory, { ttlMs: 1_000 })
    await settled()
    const gate = new Gate()
    store.next('lookup', gate.delayReply).next('lookup', refuse).next('fail', refuse)
    const first = get({ leaseMs: 30_000 })
    await settled()
    store.hooks.onGap()
    gate.open()
    await settled()
    expect(stampede.stats().unleased.queued).toBe(1)
    // The store is back: the flight leaves the queue, and is given a lease.
    store.hooks.onGap()
    await clock.advance(100)
    origin.run(0).resolve('v')
    expect(await first).toBe('v')
    busy.run(0).resolve('other')
    await other
    expect(stampede.stats().fills).toMatchObject({ committed: 1, fenced: 0 })
  })

  it('lost during a fill is said, and voids the fill', async () => {
    const { get, origin, store, stampede } = setUp()
    const first = get({ leaseMs: 600 })
    await settled()
    store.next('renew', async () => [false])
    await clock.advance(200)
    expect(stampede.stats().active.leases).toBe(0)
    origin.run(0).resolve('v')
    expect(await first).toBe('v')
    expect(transcript.take()).toEqual([
      'lease.granted',
      'fill.started',
      'lease.lost',
      'fill.committed',
    ])
  })
})

const POLICY: Policy = {
  leaseMs: 600,
  waitMs: 30_000,
  originTimeoutMs: 3_000,
  revalidate: 'background',
  earlyRefresh: 0,
}

function scripted() {
  const origin = new ScriptedOrigin<FillResult>()
  const leads: Lead[] = []
  const run = (lead: Lead) => {
    leads.push(lead)
    return origin.factory()
  }
  const caller: Caller = { lead: run, refresh: run }
  return { origin, leads, caller }
}

const entry: StoredEntry = {
  type: 'value',
  encoding: 'json',
  body: Buffer.from('1'),
  made: UNKNOWN_ORIGIN,
}
const LIVES = {
  freshMs: 1_000,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  keepMs: 0,
  physicalMs: 3_000,
}
type Store = Extract<FillResult, { type: 'store' }>
const STORE: Store = {
  type: 'store',
  entry,
  lifetimes: LIVES,
  get bornAt() {
    return clock.now()
  },
}
const PASS: FillResult = { type: 'pass', reason: 'set-cookie', remember: true }
const FAILURE: FillResult = {
  type: 'failure',
  failure: { status: 503, message: 'down' },
  error: undefined,
}

describe('a fill', () => {
  const ENDS: Array<[string, FillResult, string, string]> = [
    ['stored', STORE, 'hit', 'fill.committed'],
    ['passed', PASS, 'pass', 'fill.passed set-cookie'],
    ['failed', FAILURE, 'failed', 'fill.failed'],
  ]

  it.each(ENDS)(
    'that is %s answers all, frees its lease, and leaves nothing behind',
    async (_, result, type, event) => {
      const { rt, stampede } = setUp()
      const { caller, origin } = scripted()
      const all = [1, 2, 3].map(() => resolve(rt, 'k', POLICY, caller))
      await settled()
      origin.run(0).resolve(result)
      const types = (await Promise.all(all)).map((resolution) => resolution.type)
      expect(types).toEqual(['led', type, type])
      await settled()
      expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
      expect(transcript.take()).toEqual(['lease.granted', 'fill.started', event])
    },
  )

  it('that is abandoned lets the next one try, and after three everybody runs their own', async () => {
    const { rt, stampede } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2, 3, 4, 5].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    for (const run of [0, 1, 2]) {
      expect(origin.calls).toBe(run + 1)
      origin.run(run).resolve({ type: 'abandoned' })
      await settled()
    }
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led', 'led', 'pass', 'pass'])
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
  })

  it('lets waiters lead one after the other, none in parallel, if each leaving client makes it fail', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2, 3, 4, 5, 6].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    for (const run of [0, 1, 2, 3]) {
      expect(origin.calls).toBe(run + 1)
      origin.run(run).resolve({ type: 'abandoned', clientLeft: true })
      await settled()
    }
    origin.run(4).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led', 'led', 'led', 'led', 'hit'])
  })

  it('is not led by a waiter whose client has left', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const gone: Caller = { ...caller, isGone: () => true }
    const all = [caller, gone, caller].map((each) => resolve(rt, 'k', POLICY, each))
    await settled()
    origin.run(0).resolve({ type: 'abandoned', clientLeft: true })
    await settled()
    origin.run(1).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'gone', 'led'])
  })

  it('that is abandoned while the store is away keeps those who wait for one try to say so', async () => {
    const { rt, store } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    store.always = refuse
    origin.run(0).resolve({ type: 'abandoned' })
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(1).resolve(STORE)
    const types = (await Promise.all(all)).map((resolution) => resolution.type)
    expect(types).toEqual(['led', 'led'])
  })

  it.each(ENDS)('that is %s answers a follower who asks again at once', async (_, result) => {
    const { rt } = setUp(NO_L1)
    const { caller, origin } = scripted()
    void resolve(rt, 'k', POLICY, caller)
    const follower = Promise.resolve(resolve(rt, 'k', POLICY, caller))
    const again = outcome(follower.then(() => resolve(rt, 'k', POLICY, caller)))
    await settled()
    origin.run(0).resolve(result)
    await settled()
    origin.runs[1]?.resolve(result)
    await settled()
    expect(again.now).not.toBe('pending')
  })

  it.each(ENDS)('that is %s answers whoever asks while it lands', async (_, result) => {
    const { rt } = setUp(NO_L1)
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
    for (let i = 0; i < 3; i++) {
      await settled()
      for (const run of origin.runs) run.resolve(result)
    }
    await settled()
    expect(asked.filter(({ now }) => now === 'pending')).toEqual([])
  })

  it.each(ENDS)(
    'that is %s without a store answers whoever asks while it lands',
    async (_, result) => {
      const { rt, store } = setUp(NO_L1)
      store.always = refuse
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

  it('found fresh answers whoever asks while it lands', async () => {
    const { rt } = setUp(NO_L1)
    const { caller, origin } = scripted()
    void resolve(rt, KEY, POLICY, caller)
    await settled()
    origin.run(0).resolve({ ...STORE, lifetimes: { ...LIVES, freshMs: 30_000 } })
    await settled()
    const asked: Array<{ now: unknown }> = []
    for (const _step of STEPS) {
      asked.push(outcome(Promise.resolve(resolve(rt, KEY, POLICY, caller))))
      await Promise.resolve()
    }
    await settled()
    expect(asked.filter(({ now }) => now === 'pending')).toEqual([])
  })

  it('that is too slow is failed for those who wait; its own caller gets what comes', async () => {
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
    origin.run(0).resolve(STORE)
    await settled()
    expect(leader.now).toMatchObject({ type: 'led' })
    expect(rt.l1.get('k')).toBeUndefined()
    expect(transcript.take()).toEqual(['lease.granted', 'fill.started', 'fill.failed'])
  })

  it('has no deadline left once it ended', async () => {
    const { rt } = setUp()
    const { caller, origin, leads } = scripted()
    const leader = resolve(rt, 'k', POLICY, caller)
    await settled()
    origin.run(0).resolve(STORE)
    await leader
    await clock.advance(10_000)
    expect(leads[0]?.signal.aborted).toBe(false)
  })

  it.each([
    ['rejects', () => Promise.reject(new Error('a broken adapter'))],
    [
      'throws',
      () => {
        throw new Error('a broken adapter')
      },
    ],
  ])('by a caller that %s, which none may, is a failure and nothing worse', async (_, run) => {
    const { rt, stampede } = setUp()
    const broken: Caller = { lead: run, refresh: run }
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
    ['nothing', undefined],
  ])('whose factory throws %s fails with exactly that, for its own caller', async (_, thrown) => {
    const { get, origin } = setUp()
    const leader = get().catch((error: unknown) => ({ thrown: error }))
    const follower = outcome(get())
    const seen: { now: unknown } = { now: 'pending' }
    void leader.then((value) => {
      seen.now = value
    })
    await settled()
    origin.run(0).reject(thrown)
    await settled()
    expect(seen.now).toEqual({ thrown })
    expect(follower.now).not.toBe('pending')
  })
})

describe('a commit', () => {
  it('whose reply was lost still answers those who wait, and the store has the entry', async () => {
    const { get, origin, store } = setUp()
    store.next('commit', loseReply)
    const all = [get({ ttlMs: 5_000 }), get({ ttlMs: 5_000 })]
    await settled()
    origin.run(0).resolve('v')
    expect(await Promise.all(all)).toEqual(['v', 'v'])
    expect(await get({ ttlMs: 5_000 })).toBe('v')
    await clock.advance(1_001)
    expect(await get({ ttlMs: 5_000 })).toBe('v')
    expect(origin.calls).toBe(1)
  })

  it('leaves 300 ms of a lifetime of 1 s in the store when repeated after 700 ms', async () => {
    const { get, origin, store } = setUp(NO_L1)
    let giveUp = () => {}
    const tooLate = () =>
      new Promise<never>((_, reject) => {
        giveUp = () => reject(new Error('no reply'))
      })
    store.next('commit', tooLate)
    const first = get()
    await settled()
    origin.run(0).resolve('v')
    await clock.advance(700)
    giveUp()
    expect(await first).toBe('v')
    await clock.advance(299)
    expect(await get()).toBe('v')
    await clock.advance(1)
    const next = get()
    await settled()
    origin.run(1).resolve('new')
    expect(await next).toBe('new')
  })

  it.each(['with L1', 'without L1'])(
    'of an unchanged entry counts from its 304, 600 ms ago, %s',
    async (which) => {
      const { rt } = setUp(which === 'with L1' ? {} : NO_L1)
      const { caller, origin, leads } = scripted()
      const kept = { ...LIVES, keepMs: 60_000, physicalMs: 62_000 }
      void resolve(rt, KEY, POLICY, caller)
      await settled()
      origin.run(0).resolve({ ...STORE, lifetimes: kept })
      await clock.advance(1_500)
      void resolve(rt, KEY, POLICY, caller)
      await settled()
      const previous = leads[1]?.previous
      if (previous === undefined) throw new Error('nothing was kept')
      const bornAt = clock.now() - 600
      origin.run(1).resolve({ type: 'not-modified', previous, entry, lifetimes: kept, bornAt })
      await clock.advance(399)
      expect(await resolve(rt, KEY, POLICY, caller)).toMatchObject({ type: 'hit', stale: false })
      await clock.advance(1)
      const next = outcome(Promise.resolve(resolve(rt, KEY, POLICY, caller)))
      await settled()
      expect(next.now).toBe('pending')
      origin.run(2).resolve(PASS)
      await settled()
    },
  )

  it('that never arrived answers those who wait, and is kept here for 5 s, not for its ttl', async () => {
    const { get, origin, store } = setUp()
    store.next('commit', refuse).next('commit', refuse)
    const options = { ttlMs: 50_000, leaseMs: 600 }
    const all = [get(options), get(options)]
    await settled()
    origin.run(0).resolve('old')
    expect(await Promise.all(all)).toEqual(['old', 'old'])
    await clock.advance(4_999)
    expect(await get(options)).toBe('old')
    await clock.advance(1)
    const late = outcome(get(options))
    await settled()
    expect(late.now).toBe('pending')
    origin.run(1).resolve('new')
    await settled()
    expect(late.now).toBe('new')
  })

  it('that never arrived gives its lease back: nobody waits for its end', async () => {
    const { get, origin, store } = setUp(NO_L1)
    store.next('commit', refuse).next('commit', refuse)
    const options = { ttlMs: 50_000, leaseMs: 60_000 }
    const first = get(options)
    await settled()
    origin.run(0).resolve('v')
    await first
    await clock.advance(100)
    const second = outcome(get(options))
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('w')
    await settled()
    expect(second.now).toBe('w')
  })

  it('refused makes those who waited look again, and the next of them lead', async () => {
    const { get, origin, store } = setUp()
    store.next('commit', async () => 'fenced')
    const leader = get()
    const rest = [get(), get()]
    await settled()
    origin.run(0).resolve('refused')
    expect(await leader).toBe('refused')
    await clock.advance(5_100)
    origin.run(1).resolve('v')
    expect(await Promise.all(rest)).toEqual(['v', 'v'])
    expect(transcript.take()).toEqual([
      'lease.granted',
      'fill.started',
      'fill.fenced',
      'wait.started',
      'wait.ended by lease-end',
      'lease.granted',
      'fill.started',
      'fill.committed',
    ])
  })

  it.each(['pass', 'fail'] as const)(
    'of a %s that is lost changes nothing for those who wait',
    async (operation) => {
      const { rt, store } = setUp()
      const { caller, origin } = scripted()
      store.next(operation, refuse)
      const all = [1, 2].map(() => resolve(rt, 'k', POLICY, caller))
      await settled()
      origin.run(0).resolve(operation === 'pass' ? PASS : FAILURE)
      const [, follower] = await Promise.all(all)
      expect(follower?.type).toBe(operation === 'pass' ? 'pass' : 'failed')
      await settled()
      expect(transcript.take()).toContain(`store.failed ${operation}`)
    },
  )
})

describe('a purge', () => {
  /** Whoever asks after the purge must get what an origin made that was started after it. */
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
    '%d steps after a look-up was sent keeps what it found from who asks later',
    async (steps) => {
      const { get, origin, stampede } = setUp(NO_L1)
      const first = get({ ttlMs: 30_000 })
      await settled()
      origin.run(0).resolve('old')
      await first
      const early = outcome(get())
      await microtasks(steps)
      expect(await askAfter(stampede.purge({ key: 'k' }), get, origin, 1)).toBe('new')
      expect(early.now).not.toBe('pending')
    },
  )

  it.each(STEPS)(
    '%d steps after the look-up of a stale entry was sent does the same',
    async (steps) => {
      const { get, origin, stampede } = setUp(NO_L1)
      const swr = { staleWhileRevalidateMs: 30_000 }
      const first = get(swr)
      await settled()
      origin.run(0).resolve('old')
      await first
      await clock.advance(1_500)
      const early = outcome(get(swr))
      await microtasks(steps)
      const purged = stampede.purge({ key: 'k' })
      expect(await askAfter(purged, () => get(swr), origin, 1)).toBe('new')
      expect(early.now).not.toBe('pending')
    },
  )

  it.each(STEPS)(
    '%d steps after the origin ended keeps its value from who asks later',
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

  it.each(STEPS)('%d steps after the origin ended keeps its value out of L1', async (steps) => {
    const { get, origin, stampede } = setUp()
    const early = outcome(get())
    await settled()
    origin.run(0).resolve('old')
    await microtasks(steps)
    expect(await askAfter(stampede.purge({ key: 'k' }), get, origin, 1)).toBe('new')
    expect(early.now).toBe('old')
  })

  it('during a fill without the store keeps its value from who asks later', async () => {
    const { get, origin, stampede, store } = setUp()
    store.next('lookup', refuse)
    const early = outcome(get())
    await settled()
    expect(await askAfter(stampede.purge({ key: 'k' }), get, origin, 1)).toBe('new')
    origin.run(0).resolve('old')
    await settled()
    expect(early.now).toBe('old')
    expect(await get()).toBe('new')
  })

  it('during a fill without the store that could not be told the store either holds here', async () => {
    const { get, origin, stampede, store } = setUp()
    store.always = refuse
    const early = outcome(get())
    await settled()
    await expect(stampede.purge({ key: 'k' })).rejects.toThrow('away')
    expect(await askAfter(Promise.resolve(), get, origin, 1)).toBe('new')
    origin.run(0).resolve('old')
    await settled()
    expect(early.now).toBe('old')
    expect(await get()).toBe('new')
  })

  it.each(STEPS)('leaves nobody behind when both fills end %d steps apart', async (steps) => {
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
    origin.run(0).resolve(STORE)
    await settled()
    for (const run of origin.runs) run.resolve(STORE)
    await settled()
    expect(asked.filter(({ now }) => now === 'pending')).toEqual([])
  })

  it('of a key being passed on makes it be tried again', async () => {
    const { rt, stampede } = setUp()
    const { caller, origin } = scripted()
    const first = resolve(rt, KEY, POLICY, caller)
    await settled()
    origin.run(0).resolve(PASS)
    await first
    await settled()
    const observed = resolve(rt, KEY, POLICY, caller)
    expect(resolve(rt, KEY, POLICY, caller)).toMatchObject({ type: 'pass' })
    await settled()
    await stampede.purge({ key: 'k' })
    // Requests after the purge wait again, and the run from before it is not stored.
    const second = [1, 2].map(() => resolve(rt, KEY, POLICY, caller))
    await settled()
    origin.run(1).resolve(STORE)
    expect(await observed).toMatchObject({ type: 'led' })
    await settled()
    origin.run(2).resolve(STORE)
    const types = (await Promise.all(second)).map(({ type }) => type)
    expect(types).toEqual(['led', 'hit'])
  })

  it.each(STEPS)(
    '%d steps after the look-up of a pass mark was sent is not undone by it',
    async (steps) => {
      const { a, b } = setUpTwo()
      const own = scripted()
      const first = resolve(runtimeOf(a), KEY, POLICY, own.caller)
      await settled()
      own.origin.run(0).resolve(PASS)
      await first
      await settled()
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

  it('that voids a fill counts once for waiters that move to a newer flight', async () => {
    const { get, origin, stampede } = setUp()
    const [leader, waiter] = [get(), get()].map(outcome)
    await settled()
    await stampede.purge({ key: 'k' })
    const newcomer = outcome(get())
    await settled()
    origin.run(0).resolve('first')
    await settled()
    await stampede.purge({ key: 'k' })
    origin.run(1).resolve('second')
    await settled()
    // It has waited for two fills now: it gets the third, and not the void second one.
    expect([leader?.now, newcomer.now, waiter?.now]).toEqual(['first', 'second', 'pending'])
    origin.run(2).resolve('third')
    await settled()
    expect(waiter?.now).toBe('third')
  })

  it('of a key that is waited for elsewhere lets the waiter lead', async () => {
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
  it('during a fill lets it end for its own, and others ask the store', async () => {
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

  it('forgets L1, also what is being read', async () => {
    const { getA, getB, originA, storeB } = setUpTwo()
    const first = getA({ ttlMs: 30_000 })
    await settled()
    originA.run(0).resolve('v')
    await first
    await getB()
    storeB.hooks.onForget(0)
    transcript.take()
    expect(await getB()).toBe('v')
    expect(transcript.take()).toEqual(['b: hit l2'])
  })

  it('during a fill without the store means that newcomers ask the store', async () => {
    const { get, origin, store } = setUp()
    store.next('lookup', refuse)
    const early = outcome(get())
    await settled()
    store.hooks.onForget(0)
    const late = outcome(get())
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(0).resolve('old')
    origin.run(1).resolve('new')
    await settled()
    expect([early.now, late.now]).toEqual(['old', 'new'])
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
    'is not answered with past its window, however long its refresh takes (%j)',
    async (l1) => {
      const { get, origin } = await filled(l1, SWR)
      expect(await get(SWR)).toBe('old')
      await clock.advance(1_499)
      expect(await get(SWR)).toBe('old')
      await clock.advance(1)
      const late = outcome(get(SWR))
      await settled()
      expect(late.now).toBe('pending')
      expect(origin.calls).toBe(2)
      origin.run(1).resolve('new')
      await settled()
      expect(late.now).toBe('new')
    },
  )

  it('whose refresh failed is not refreshed again before the back-off is over', async () => {
    const { get, origin, store } = await filled({}, { staleWhileRevalidateMs: 30_000 })
    const swr = { staleWhileRevalidateMs: 30_000 }
    await get(swr)
    await settled()
    origin.run(1).reject(new Error('down'))
    await settled()
    store.calls.length = 0
    for (let i = 0; i < 5; i++) {
      expect(await get(swr)).toBe('old')
      await settled()
    }
    expect(origin.calls).toBe(2)
    expect(store.calls).toEqual([])
    await clock.advance(1_000)
    expect(await get(swr)).toBe('old')
    await settled()
    expect(origin.calls).toBe(3)
    origin.run(2).resolve('new')
    await settled()
    expect(await get(swr)).toBe('new')
  })

  it('whose refresh was abandoned is not refreshed again before the back-off is over', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
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
    origin.run(1).resolve({ type: 'abandoned' })
    await settled()
    for (let i = 0; i < 3; i++) expect(await ask()).toMatchObject({ type: 'hit', stale: true })
    expect(origin.calls).toBe(2)
    await clock.advance(1_000)
    await ask()
    expect(origin.calls).toBe(3)
    origin.run(2).resolve(STORE)
    await settled()
  })

  it('is a hit for each waiter of an older fill that is served it', async () => {
    const { a, getA, getB, originA, originB, storeA } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000, leaseMs: 600, jitter: 0 }
    const [leader, waiter] = [getA(swr), getA(swr)].map(outcome)
    await settled()
    storeA.next('renew', async () => [false])
    await clock.advance(700)
    const other = getB(swr)
    await settled()
    originB.run(0).resolve('v')
    await other
    await clock.advance(1_500)
    storeA.hooks.onForget(0)
    expect(await getA(swr)).toBe('v')
    await settled()
    transcript.take()
    originA.run(0).resolve('late')
    await settled()
    expect([leader?.now, waiter?.now]).toEqual(['late', 'v'])
    expect(transcript.take()).toEqual(['a: fill.fenced', 'a: hit l2 stale'])
    expect(a.stats().hits).toEqual({ l1: 0, l2: 2 })
    originA.run(1).resolve('new')
    await settled()
  })

  it('is answered with while the store is away, and refreshed by one', async () => {
    const { get, origin, store } = await filled({}, { staleWhileRevalidateMs: 30_000 })
    store.always = refuse
    const swr = { staleWhileRevalidateMs: 30_000 }
    expect(await Promise.all([get(swr), get(swr)])).toEqual(['old', 'old'])
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('new')
    await settled()
    expect(await get(swr)).toBe('new')
    expect(transcript.take()).toEqual([
      'hit l1 stale',
      'hit l1 stale',
      'store.failed lookup',
      'fill.started behind unleased',
      'hit l1',
    ])
  })

  it('refreshed in the foreground is what everybody but the leader gets', async () => {
    const { rt } = setUp()
    const { caller, origin, leads } = scripted()
    const policy: Policy = { ...POLICY, revalidate: 'foreground' }
    const lives = { ...LIVES, staleWhileRevalidateMs: 30_000, physicalMs: 40_000 }
    const first = resolve(rt, 'k', policy, caller)
    await settled()
    origin.run(0).resolve({ ...STORE, lifetimes: lives })
    await first
    await clock.advance(1_500)
    transcript.take()
    const all = [1, 2].map(() => Promise.resolve(resolve(rt, 'k', policy, caller)))
    const outcomes = all.map(outcome)
    await settled()
    expect(outcomes.map(({ now }) => (now as { type?: string }).type)).toEqual([undefined, 'hit'])
    expect(resolve(rt, 'k', policy, caller)).toMatchObject({ type: 'hit', stale: true })
    expect(leads[1]?.previous).toBeDefined()
    origin.run(1).resolve(STORE)
    await settled()
    expect(outcomes[0]?.now).toMatchObject({ type: 'led' })
    expect(transcript.take()).toEqual([
      'hit l1 stale',
      'lease.granted',
      'fill.started',
      'hit l1 stale',
      'fill.committed',
    ])
  })

  it('whose foreground refresh hangs is still answered with, to all but that one client', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const policy: Policy = { ...POLICY, revalidate: 'foreground' }
    const lives = { ...LIVES, staleWhileRevalidateMs: 30_000, physicalMs: 40_000 }
    const first = resolve(rt, 'k', policy, caller)
    await settled()
    origin.run(0).resolve({ ...STORE, lifetimes: lives })
    await first
    await clock.advance(1_500)
    const leader = outcome(Promise.resolve(resolve(rt, 'k', policy, caller)))
    await clock.advance(3_000)
    expect(leader.now).toBe('pending')
    expect(resolve(rt, 'k', policy, caller)).toMatchObject({ type: 'hit', stale: true })
    origin.run(1).resolve(STORE)
    await settled()
    expect(leader.now).toMatchObject({ type: 'led' })
  })

  it('that turns out to be passed on is gone', async () => {
    const { rt } = setUp()
    const { caller, origin } = scripted()
    const lives = { ...LIVES, staleWhileRevalidateMs: 30_000, physicalMs: 40_000 }
    const first = resolve(rt, 'k', POLICY, caller)
    await settled()
    origin.run(0).resolve({ ...STORE, lifetimes: lives })
    await first
    await clock.advance(1_500)
    expect(resolve(rt, 'k', POLICY, caller)).toMatchObject({ type: 'hit', stale: true })
    await settled()
    origin.run(1).resolve(PASS)
    await settled()
    const again = resolve(rt, 'k', POLICY, caller)
    expect(resolve(rt, 'k', POLICY, caller)).toEqual({ type: 'pass', reason: 'hit-for-miss' })
    await settled()
    origin.run(2).resolve(STORE)
    expect(await again).toMatchObject({ type: 'led' })
  })
})

describe('without the store', () => {
  it('one of all who ask runs the origin, and L1 has the result for a while', async () => {
    const { get, origin, store } = setUp()
    store.always = refuse
    const all = [get(), get(), get()]
    await settled()
    origin.run(0).resolve('v')
    expect(await Promise.all(all)).toEqual(['v', 'v', 'v'])
    expect(await get()).toBe('v')
    expect(origin.calls).toBe(1)
    expect(transcript.take()).toEqual(['store.failed lookup', 'fill.started unleased', 'hit l1'])
  })

  it('a failure is told to all who waited, and an older value stands in for it', async () => {
    const { get, origin, store } = setUp()
    const sie = { staleIfErrorMs: 30_000 }
    const first = get(sie)
    await settled()
    origin.run(0).resolve('old')
    await first
    await clock.advance(1_500)
    store.always = refuse
    const all = [get(sie), get(sie)]
    await settled()
    origin.run(1).reject(new Error('down'))
    expect(await Promise.all(all)).toEqual(['old', 'old'])
  })

  it('a key that must be passed on is remembered as that, as with the store', async () => {
    const { rt, store } = setUp()
    store.always = refuse
    const { caller, origin } = scripted()
    const all = [1, 2].map(() => resolve(rt, 'k', POLICY, caller))
    await settled()
    origin.run(0).resolve(PASS)
    await Promise.all(all)
    expect(transcript.take()).toContain('fill.passed set-cookie')
    const pass = { type: 'pass', reason: 'hit-for-miss' }
    expect(await resolve(rt, 'k', POLICY, caller)).toEqual(pass)
    expect(resolve(rt, 'k', POLICY, caller)).toEqual(pass)
  })

  it('a fill that is too slow is given up as with the store', async () => {
    const { get, origin, store } = setUp()
    store.always = refuse
    const both = [1, 2].map(() => outcome(get({ originTimeoutMs: 500 })))
    await clock.advance(500)
    for (const { now } of both) expect(now).toMatch(/did not finish within originTimeoutMs \(500\)/)
    origin.run(0).resolve('late')
    await settled()
  })

  it('nothing is left of it 5 s later, when the store is back', async () => {
    const { get, origin, store } = setUp()
    store.always = refuse
    const first = get({ ttlMs: 30_000 })
    await settled()
    origin.run(0).resolve('v')
    await first
    store.always = undefined
    await clock.advance(5_000)
    const second = outcome(get({ ttlMs: 30_000 }))
    await settled()
    expect(second.now).toBe('pending')
    origin.run(1).resolve('w')
    await settled()
    expect(second.now).toBe('w')
  })
})

describe('a copy in L1 of what the store does not have any more', () => {
  it('is dropped when the store says so, and is not asked about by every request', async () => {
    const { getA, getB, originA, originB, a, b, storeA } = setUpTwo()
    const swr = { staleWhileRevalidateMs: 60_000 }
    const first = getA(swr)
    await settled()
    originA.run(0).resolve('old')
    await first
    await clock.advance(1_500)
    // The purge of the other is not heard here, and the other fills already.
    const deaf = { ...storeA.hooks }
    Object.assign(storeA.hooks, { onPurge: () => {} })
    await b.purge({ key: 'k' })
    Object.assign(storeA.hooks, deaf)
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

describe('what comes from the store', () => {
  it.each([
    ['a frame that cannot be read', Buffer.from('rubbish')],
    [
      'a frame of JSON that is none',
      forgeFrame('{"p":0,"d":0,"t":[]}', { kind: 2, body: '{"price":', digest: keyDigest(KEY) }),
    ],
  ])('%s is a miss, and is replaced', async (_, frame) => {
    const { get, origin, store } = setUp(NO_L1)
    const reply = await store.lookup(KEY, { token: 't', leaseMs: 500 })
    if (reply.status !== 'leased') throw new Error(reply.status)
    await store.commit(reply.grant, frame, { ...LIVES, freshMs: 30_000 })
    const all = [get(), get()].map(outcome)
    await settled()
    expect(origin.calls).toBe(1)
    origin.run(0).resolve('v')
    await settled()
    expect(all.map(({ now }) => now)).toEqual(['v', 'v'])
    expect(await get()).toBe('v')
  })

  it('a reply that makes no sense is as if the store were away', async () => {
    const { get, origin, store } = setUp()
    store.next('lookup', async () => undefined)
    const first = get()
    await settled()
    origin.run(0).resolve('v')
    expect(await first).toBe('v')
    expect(transcript.take()).toEqual(['store.failed lookup', 'fill.started unleased'])
  })
})
