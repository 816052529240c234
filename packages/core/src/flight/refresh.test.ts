// Tests of early refreshes: which process refreshes, which requests wait, and which events may
// happen during a refresh.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import type { Stampede, StampedeOptions } from '../index.ts'
import type { Lifetimes, LookupRequest } from '../ports/store.ts'
import { runtimeOf } from '../stampede.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import {
  POLICY as BENCH_POLICY,
  begin,
  clock,
  create as createOn,
  end,
  KEY,
  LIVES,
  NO_L1,
  outcome,
  scripted,
  transcript,
} from '../testing/resolve-bench.ts'
import { type FaultyStore, Gate, refuse, sharedStores } from '../testing/store-doubles.ts'
import type { Policy } from './policy.ts'
import type { FillResult } from './resolution.ts'
import { resolve } from './resolve.ts'
import { mayLeadInstead } from './shared-failure.ts'

const EARLY = { ttlMs: 10_000, jitter: 0, earlyRefresh: 1 }
/** The duration of one run. The refresh counts at most a twentieth of the lifetime as duration. */
const TAKES_MS = 200
/**
 * A random number that starts a refresh if at most 10 × δ remain. The number 0 never starts one.
 */
const STARTS_REFRESH = 1 - Math.exp(-10)
const STEPS = Array.from({ length: 16 }, (_, i) => i)

let stores: { a: FaultyStore; b: FaultyStore }
let chance: number
let origin: ScriptedOrigin<unknown>

beforeEach(() => {
  begin()
  stores = sharedStores()
  chance = 0
  origin = new ScriptedOrigin()
})
afterEach(() => {
  chance = 0
  return end()
})

/** Creates a process whose random numbers are all `chance`. */
const create = (of: 'a' | 'b', options: StampedeOptions = {}) =>
  createOn(stores[of], { random: () => chance, ...options }, of)

/** Creates two processes with one value, and advances the clock to `forMs` before its expiry. */
async function filled({ forMs = 1_000, more = {}, options = {} as StampedeOptions } = {}) {
  const a = create('a', options)
  const b = create('b', options)
  const get = (from: Stampede, other = {}) =>
    from.getOrSet('k', origin.factory, { ...EARLY, ...more, ...other })
  const first = get(a)
  await clock.advance(TAKES_MS)
  origin.run(0).resolve('old')
  await first
  await get(b)
  await clock.advance(10_000 - forMs)
  transcript.take()
  stores.a.calls.length = 0
  stores.b.calls.length = 0
  return { a, b, get }
}

describe('a fresh entry', () => {
  it('is served without a command if no early refresh starts', async () => {
    const { a, b, get } = await filled()
    for (let i = 0; i < 20; i++) for (const each of [a, b]) expect(await get(each)).toBe('old')
    await settled()
    expect([...stores.a.calls, ...stores.b.calls]).toEqual([])
    expect(origin.calls).toBe(1)
  })

  it('is not refreshed early without the option, for any random number', async () => {
    const { a, get } = await filled({ more: { earlyRefresh: 0 } })
    chance = STARTS_REFRESH
    expect(await get(a)).toBe('old')
    await settled()
    expect(stores.a.calls).toEqual([])
  })

  it('is served at once, and refreshed in the background by one process of the fleet', async () => {
    const { a, b, get } = await filled()
    chance = STARTS_REFRESH
    expect(await get(a)).toBe('old')
    expect(await get(b)).toBe('old')
    await settled()
    for (let i = 0; i < 5; i++) {
      expect(await get(a)).toBe('old')
      expect(await get(b)).toBe('old')
      await settled()
    }
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('new')
    await settled()
    expect(await get(a)).toBe('new')
    expect(stores.a.calls).toEqual([`lookup ${KEY}`, `commit ${KEY}`])
    expect(stores.b.calls).toEqual([`lookup ${KEY}`])
    expect(transcript.take().filter((line) => !line.endsWith('hit l1'))).toEqual([
      'a: lease.granted',
      'a: fill.started behind',
      'a: fill.committed',
    ])
  })

  it('may be refreshed by another process, from which this process gets the new copy', async () => {
    const { a, b, get } = await filled()
    chance = STARTS_REFRESH
    await get(a)
    await settled()
    origin.run(1).resolve('new')
    await settled()
    expect(await get(b)).toBe('old')
    await settled()
    expect(await get(b)).toBe('new')
    await settled()
    expect(origin.calls).toBe(2)
    // The lease has ended, so the next early refresh gets one.
    await clock.advance(9_500)
    expect(await get(b)).toBe('new')
    await settled()
    expect(origin.calls).toBe(3)
    origin.run(2).resolve('newer')
    await settled()
  })

  it('is looked up again after the duration of one run if another process refreshes it', async () => {
    const { a, b, get } = await filled()
    chance = STARTS_REFRESH
    await get(a)
    await settled()
    await get(b)
    await clock.advance(TAKES_MS - 1)
    await get(b)
    await settled()
    expect(stores.b.calls).toHaveLength(1)
    await clock.advance(1)
    await get(b)
    await settled()
    expect(stores.b.calls).toHaveLength(2)
    origin.run(1).resolve('new')
    await settled()
  })

  it('is refreshed in the background even if stale entries are refreshed in the foreground', async () => {
    const rt = runtimeOf(create('a'))
    const { caller, origin: led } = scripted()
    const policy: Policy = { ...POLICY, revalidate: 'foreground' }
    const first = resolve(rt, 'k', policy, caller)
    await clock.advance(TAKES_MS)
    led.run(0).resolve(STORE)
    await first
    await clock.advance(9_500)
    chance = STARTS_REFRESH
    expect(resolve(rt, 'k', policy, caller)).toMatchObject({ type: 'hit', stale: false })
    await settled()
    expect(transcript.take()).toContain('a: fill.started behind')
    led.run(1).resolve(STORE)
    await settled()
  })

  it('is dropped in all processes if the response of its refresh cannot be shared', async () => {
    const [a, b] = [runtimeOf(create('a')), runtimeOf(create('b'))]
    const { caller, origin: led } = scripted()
    const first = resolve(a, 'k', POLICY, caller)
    await clock.advance(TAKES_MS)
    led.run(0).resolve(STORE)
    await first
    await clock.advance(9_500)
    chance = STARTS_REFRESH
    resolve(a, 'k', POLICY, caller)
    await settled()
    led.run(1).resolve({ type: 'pass', reason: 'private', remember: true })
    await settled()
    const observed = resolve(a, 'k', POLICY, caller)
    expect(resolve(a, 'k', POLICY, caller)).toEqual({ type: 'pass', reason: 'hit-for-miss' })
    expect(await resolve(b, 'k', POLICY, caller)).toEqual({ type: 'pass', reason: 'hit-for-miss' })
    await settled()
    led.run(2).resolve({ type: 'pass', reason: 'private', remember: true })
    await observed
    await clock.advance(10_000)
  })

  it.each([
    ['an abandoned run', { type: 'abandoned' } as FillResult],
    [
      'a response to this one request',
      { type: 'pass', reason: 'status', remember: false } as FillResult,
    ],
  ])('is not refreshed again at once after %s', async (_, result) => {
    const rt = runtimeOf(create('a'))
    const { caller, origin: led } = scripted()
    const first = resolve(rt, 'k', POLICY, caller)
    await clock.advance(TAKES_MS)
    led.run(0).resolve(STORE)
    await first
    await clock.advance(8_100)
    chance = STARTS_REFRESH
    resolve(rt, 'k', POLICY, caller)
    await settled()
    led.run(1).resolve(result)
    await settled()
    await clock.advance(999)
    expect(resolve(rt, 'k', POLICY, caller)).toMatchObject({ type: 'hit', stale: false })
    await settled()
    expect(led.calls).toBe(2)
    await clock.advance(1)
    resolve(rt, 'k', POLICY, caller)
    await settled()
    expect(led.calls).toBe(3)
    led.run(2).resolve(STORE)
    await settled()
  })
})

describe('a request during an early refresh', () => {
  it('gets the fresh copy even while the lookup is under way', async () => {
    const { a, get } = await filled()
    chance = STARTS_REFRESH
    const gate = new Gate()
    stores.a.next('lookup', gate.delayReply)
    for (let i = 0; i < 3; i++) expect(await get(a)).toBe('old')
    gate.open()
    await settled()
    for (let i = 0; i < 3; i++) expect(await get(a)).toBe('old')
    expect(origin.calls).toBe(2)
    expect(stores.a.calls).toHaveLength(1)
    origin.run(1).resolve('new')
    await settled()
  })

  it('gets the entry of the lookup if it has no copy in memory', async () => {
    const { a, get } = await filled({ options: NO_L1 })
    chance = STARTS_REFRESH
    const gate = new Gate()
    expect(await get(a)).toBe('old')
    await settled()
    stores.a.calls.length = 0
    expect(await Promise.all([get(a), get(a)])).toEqual(['old', 'old'])
    expect(stores.a.calls).toEqual([])
    origin.run(1).resolve('new')
    await settled()
    // Requests between the lookup for an early refresh and its reply are served too.
    await clock.advance(9_500)
    stores.a.next('lookup', (work) => work()).next('lookup', gate.delayReply)
    expect(await get(a)).toBe('new')
    const waiting = [get(a), get(a)].map(outcome)
    await settled()
    gate.open()
    await settled()
    expect(waiting.map(({ now }) => now)).toEqual(['new', 'new'])
    expect(origin.calls).toBe(3)
    origin.run(2).resolve('newer')
    await settled()
  })

  it.each([{}, NO_L1])(
    'waits for the running refresh when the entry has expired, in both processes (%j)',
    async (options) => {
      const { a, b, get } = await filled({ options })
      chance = STARTS_REFRESH
      await get(a)
      await settled()
      chance = 0
      await clock.advance(1_500)
      const waiting = [get(a), get(b), get(a)].map(outcome)
      await settled()
      expect(waiting.map(({ now }) => now)).toEqual(['pending', 'pending', 'pending'])
      origin.run(1).resolve('new')
      await settled()
      expect(waiting.map(({ now }) => now)).toEqual(['new', 'new', 'new'])
      expect(origin.calls).toBe(2)
    },
  )

  it.each([{}, NO_L1])(
    'gets a stale response when the entry has expired, if stale is allowed (%j)',
    async (options) => {
      const { a, b, get } = await filled({ options, more: { staleWhileRevalidateMs: 5_000 } })
      chance = STARTS_REFRESH
      await get(a)
      await settled()
      await clock.advance(1_500)
      for (const each of [a, b, a, b]) expect(await get(each)).toBe('old')
      await settled()
      expect(origin.calls).toBe(2)
      origin.run(1).resolve('new')
      await settled()
      chance = 0
      expect(await get(a)).toBe('new')
    },
  )
})

describe('a failing early refresh', () => {
  it('keeps the entry, and is tried again by this process after the back-off', async () => {
    const { a, b, get } = await filled({ forMs: 1_900 })
    chance = STARTS_REFRESH
    await get(a)
    await settled()
    origin.run(1).reject(new Error('down'))
    await settled()
    for (let i = 0; i < 5; i++) expect(await get(a)).toBe('old')
    await clock.advance(999)
    expect(await get(a)).toBe('old')
    await settled()
    expect(origin.calls).toBe(2)
    // The pause after a failure is only in process a.
    expect(await get(b)).toBe('old')
    await settled()
    expect(origin.calls).toBe(3)
    origin.run(2).reject(new Error('down'))
    await settled()
    await clock.advance(1)
    expect(await get(a)).toBe('old')
    await settled()
    expect(origin.calls).toBe(4)
    origin.run(3).resolve('new')
    await settled()
    expect(await get(a)).toBe('new')
    expect(transcript.take()).not.toContain('b: failure.shared')
  })

  it('causes no back-off for the next request once the entry has expired', async () => {
    const { a, b, get } = await filled({ forMs: 100 })
    chance = STARTS_REFRESH
    await get(a)
    await settled()
    origin.run(1).reject(new Error('down'))
    await clock.advance(150)
    const next = get(b)
    await settled()
    origin.run(2).resolve('new')
    expect(await next).toBe('new')
  })

  it('is shared with waiters if it ends after the entry has expired', async () => {
    const { a, b, get } = await filled({ forMs: 100 })
    chance = STARTS_REFRESH
    await get(a)
    await clock.advance(150)
    const waiting = [get(a), get(b)].map(outcome)
    await settled()
    origin.run(1).reject(new Error('down'))
    await settled()
    expect(waiting.map(({ now }) => now)).toEqual(['down', 'ERR_STAMPEDE_ORIGIN_FAILED'])
    expect(origin.calls).toBe(2)
  })

  it('includes a run that exceeds originTimeoutMs', async () => {
    const { a, get } = await filled({ forMs: 1_900, more: { originTimeoutMs: 500 } })
    chance = STARTS_REFRESH
    await get(a)
    await clock.advance(500)
    expect(await get(a)).toBe('old')
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('late')
    await settled()
    expect(await get(a)).toBe('old')
  })

  it('includes an unavailable store, and causes neither a run nor a lookup on each hit', async () => {
    const { a, get } = await filled({ forMs: 1_900 })
    stores.a.always = refuse
    chance = STARTS_REFRESH
    for (let i = 0; i < 5; i++) {
      expect(await get(a)).toBe('old')
      await settled()
    }
    expect(origin.calls).toBe(1)
    expect(stores.a.calls).toEqual([`lookup ${KEY}`])
    await clock.advance(1_000)
    await get(a)
    await settled()
    expect(stores.a.calls).toHaveLength(2)
    stores.a.heal()
  })
})

describe('a purge during an early refresh', () => {
  it.each([
    ['of the key', { key: 'k' }],
    ['of a tag', { tag: 't' }],
    ['of all', { all: true as const }],
  ])(
    'refuses the commit if it is a purge %s, and later requests get a new value',
    async (_, target) => {
      const { a, b, get } = await filled({ more: { tags: ['t'] } })
      chance = STARTS_REFRESH
      await get(a)
      await settled()
      chance = 0
      await b.purge(target)
      const next = get(a)
      await settled()
      origin.run(1).resolve('purged')
      await settled()
      for (const run of origin.runs.slice(2)) run.resolve('new')
      expect(await next).toBe('new')
      expect(await get(b)).toBe('new')
      expect(transcript.take()).toContain('a: fill.fenced')
    },
  )

  it.each(STEPS)(
    'leaves no lease if it comes %d microtasks after the lookup was sent',
    async (steps) => {
      for (const options of [{}, NO_L1]) {
        stores = sharedStores()
        origin = new ScriptedOrigin()
        chance = 0
        const { a, b, get } = await filled({ options })
        chance = STARTS_REFRESH
        void get(a)
        for (let i = 0; i < steps; i++) await Promise.resolve()
        await b.purge({ key: 'k' })
        chance = 0
        const asked = [get(a), get(b)].map(outcome)
        await settled()
        for (let i = 0; i < 3; i++) {
          for (const run of origin.runs) run.resolve('new')
          await settled()
        }
        // No time has passed, so no request waited for the end of a lease.
        expect(asked.map(({ now }) => now)).toEqual(['new', 'new'])
      }
    },
  )

  it.each(STEPS)(
    'makes the next request get a new value if it is soft and comes %d microtasks after the lookup',
    async (steps) => {
      const { a, get } = await filled({ more: { staleWhileRevalidateMs: 5_000 } })
      chance = STARTS_REFRESH
      void get(a)
      for (let i = 0; i < steps; i++) await Promise.resolve()
      await a.purge({ key: 'k' }, { soft: true })
      chance = 0
      for (let i = 0; i < 3; i++) {
        expect(['old', 'new']).toContain(await get(a))
        await settled()
        for (const run of origin.runs) run.resolve('new')
        await settled()
      }
      expect(await get(a)).toBe('new')
    },
  )
})

describe('close()', () => {
  it('lets a running early refresh end', async () => {
    const { a, get } = await filled()
    chance = STARTS_REFRESH
    await get(a)
    await settled()
    const closed = a.close()
    origin.run(1).resolve('new')
    await clock.advance(100)
    await closed
    expect(stores.a.calls).toEqual([`lookup ${KEY}`, `commit ${KEY}`])
  })

  it('releases the lease of an early refresh that hangs', async () => {
    const { a, b, get } = await filled()
    chance = STARTS_REFRESH
    await get(a)
    await settled()
    const closed = a.close()
    await clock.advance(2_100)
    await closed
    const next = get(b)
    await settled()
    origin.run(2).resolve('new')
    expect(await next).toBe('new')
    origin.run(1).resolve('late')
  })
})

describe('early refresh without L1', () => {
  it('is decided on every reply of the store, which does not send the value again', async () => {
    const { a, get } = await filled({ options: NO_L1 })
    const requests: LookupRequest[] = []
    const lookup = stores.a.lookup.bind(stores.a)
    stores.a.lookup = (key, request) => {
      requests.push(request)
      return lookup(key, request)
    }
    expect(await Promise.all([get(a), get(a)])).toEqual(['old', 'old'])
    await settled()
    expect(requests).toHaveLength(1)
    chance = STARTS_REFRESH
    expect(await Promise.all([get(a), get(a)])).toEqual(['old', 'old'])
    await settled()
    expect(requests).toHaveLength(3)
    expect(requests[2]).toMatchObject({ early: true, knownFence: expect.stringMatching(/^\d+$/) })
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('new')
    await settled()
  })
})

describe('the measured duration of a run', () => {
  it('counts as a twentieth of the lifetime at most, so that one slow run causes few refreshes', async () => {
    const a = create('a')
    const get = () => a.getOrSet('k', origin.factory, EARLY)
    const first = get()
    await clock.advance(10_000)
    origin.run(0).resolve('slow')
    await first
    await settled()
    const held = runtimeOf(a).l1.get(KEY)
    expect(held?.type === 'copy' && held.held.entry.provenance.tookMs).toBe(10_000)
    // For a new entry, the probability is e^-20.
    stores.a.calls.length = 0
    const seeded = lcg(3)
    for (let i = 0; i < 100_000; i++) {
      chance = seeded()
      await get()
    }
    await settled()
    expect(stores.a.calls).toEqual([])
  })

  it('is averaged over refreshes, also over those with a 304', async () => {
    const rt = runtimeOf(create('a'))
    const { caller, origin: led, leads } = scripted()
    const took = () => {
      const slot = rt.l1.get('k')
      return slot?.type === 'copy' ? slot.held.entry.provenance.tookMs : undefined
    }
    const first = resolve(rt, 'k', POLICY, caller)
    await clock.advance(100)
    led.run(0).resolve(STORE)
    await first
    await settled()
    expect(took()).toBe(100)
    for (const [runs, expected] of [
      [1, 130],
      [2, 151],
    ] as const) {
      await clock.advance(9_500)
      chance = STARTS_REFRESH
      resolve(rt, 'k', POLICY, caller)
      await clock.advance(200)
      const held = leads.at(-1)?.previous
      if (held === undefined) throw new Error('nothing was there before')
      led.run(runs).resolve({
        type: 'not-modified',
        previous: held,
        entry: held.entry,
        lifetimes: TEN_SECONDS,
        bornAt: clock.now(),
      })
      await settled()
      chance = 0
      expect(took()).toBe(expected)
    }
  })

  it('includes the body, although the lifetime counts from the head', async () => {
    const rt = runtimeOf(create('a'))
    const { caller, origin: led } = scripted()
    const first = resolve(rt, 'k', POLICY, caller)
    await clock.advance(100)
    const bornAt = clock.now()
    await clock.advance(200)
    led.run(0).resolve({ ...STORE, bornAt } as FillResult)
    await first
    await settled()
    const slot = rt.l1.get('k')
    expect(slot?.type === 'copy' && slot.held.entry.provenance.tookMs).toBe(300)
  })

  it('is subtracted from the end of the entry, after jitter', async () => {
    chance = 0.5
    const a = create('a')
    const get = () => a.getOrSet('k', origin.factory, { ...EARLY, jitter: 0.5 })
    const first = get()
    await clock.advance(TAKES_MS)
    origin.run(0).resolve('old')
    await first
    // The entry is fresh for 7.5 s instead of 10 s. An early refresh starts in the last 2 s.
    chance = STARTS_REFRESH
    await clock.advance(5_499)
    await get()
    await settled()
    expect(origin.calls).toBe(1)
    await clock.advance(2)
    await get()
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('new')
    await settled()
  })
})

const POLICY: Policy = { ...BENCH_POLICY, originTimeoutMs: 30_000, earlyRefresh: 1 }

const TEN_SECONDS: Lifetimes = { ...LIVES, freshMs: 10_000, physicalMs: 12_000 }

const STORE: FillResult = {
  type: 'store',
  entry: {
    type: 'response',
    status: 200,
    fields: [],
    body: Buffer.from('1'),
    initialAgeMs: 0,
    vary: [],
    provenance: UNKNOWN_PROVENANCE,
  },
  lifetimes: TEN_SECONDS,
  get bornAt() {
    return clock.now()
  },
}

/** Random numbers from [0, 1), the same in every run of the test. */
function lcg(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describe('digests of requests that were served stale', () => {
  it('are forgotten when there are too many', () => {
    const rt = runtimeOf(create('a'))
    const { caller } = scripted()
    for (let i = 0; i < 10_000; i++) {
      expect(mayLeadInstead(rt, { ...caller, requestDigest: () => `d${i}` }, 'failed')).toBe(false)
    }
    expect(rt.seenDigests.size).toBeLessThanOrEqual(4_096)
  })
})
