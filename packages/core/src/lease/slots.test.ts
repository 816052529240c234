// Tests of runs without a lease: at most originConcurrency run at a time, in order of arrival, and
// every slot is freed.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Stampede } from '../index.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import { begin, clock, create, end, outcome, transcript } from '../testing/resolve-bench.ts'
import { FaultyStore, refuse } from '../testing/store-doubles.ts'
import { OriginSlots } from './slots.ts'

let store: FaultyStore
let stampede: Stampede
let origin: ScriptedOrigin<unknown>

beforeEach(() => {
  begin()
  store = new FaultyStore()
  store.always = refuse
  stampede = create(store, { originConcurrency: 2 })
  origin = new ScriptedOrigin()
})
afterEach(end)

const get = (key: string, options = {}) =>
  outcome(stampede.getOrSet(key, origin.factory, { ttlMs: 1_000, jitter: 0, ...options }))

const unleased = () => stampede.stats().unleased

describe('concurrency slots while the store is unavailable', () => {
  it('are given to queued keys in order of arrival', async () => {
    const all = ['a', 'b', 'c', 'd', 'c'].map((key) => get(key))
    await settled()
    expect(origin.calls).toBe(2)
    expect(unleased()).toEqual({ running: 2, queued: 2 })
    await origin.run(1).resolve('for b')
    await origin.run(2).resolve('for c')
    origin.run(0).resolve('for a')
    await origin.run(3).resolve('for d')
    expect(all.map(({ now }) => now)).toEqual(['for a', 'for b', 'for c', 'for d', 'for c'])
    expect(origin.calls).toBe(4)
    expect(transcript.take().filter((line) => line === 'fill.queued')).toHaveLength(2)
  })

  it('are freed by a run that throws, and by one that exceeds originTimeoutMs', async () => {
    const options = { originTimeoutMs: 500 }
    const all = ['a', 'b', 'c', 'd'].map((key) => get(key, options))
    await settled()
    await origin.run(0).reject(new Error('down'))
    expect(origin.calls).toBe(3)
    await clock.advance(500)
    expect(origin.calls).toBe(4)
    await origin.run(3).resolve('for d')
    const late = 'ERR_STAMPEDE_ORIGIN_TIMEOUT'
    expect(all.map(({ now }) => now)).toEqual(['down', late, late, 'for d'])
    // The end of a run after its timeout does not free its slot a second time.
    await origin.run(1).resolve('late')
    expect(unleased()).toEqual({ running: 0, queued: 0 })
  })

  it('are waited for until waitMs ends, after which the caller gets an error', async () => {
    get('a')
    get('b')
    const [patient, hasty] = [get('c', { waitMs: 5_000 }), get('d', { waitMs: 100 })]
    await clock.advance(100)
    expect(hasty.now).toBe('ERR_STAMPEDE_WAIT_TIMEOUT')
    expect(unleased().queued).toBe(1)
    await origin.run(0).resolve('for a')
    await origin.run(2).resolve('for c')
    expect(patient.now).toBe('for c')
    expect(origin.calls).toBe(3)
  })

  it('are not needed to serve a stale entry, as long as no purge can have been missed', async () => {
    store.always = undefined
    const sie = { staleIfErrorMs: 60_000 }
    get('c', sie)
    await settled()
    origin.run(0).resolve('old')
    await clock.advance(1_500)
    store.always = refuse
    get('a')
    get('b')
    await settled()
    store.confirmed = clock.now()
    const covered = get('c', sie)
    await settled()
    expect(covered.now).toBe('old')
    expect(transcript.take()).toContain('stale.served')
    expect(unleased().queued).toBe(0)
    await clock.advance(5_000)
    const uncovered = get('c', sie)
    await settled()
    expect(uncovered.now).toBe('pending')
  })

  it('are not waited for by a background refresh, which is skipped instead', async () => {
    store.always = undefined
    const swr = { staleWhileRevalidateMs: 60_000 }
    get('c', swr)
    await settled()
    origin.run(0).resolve('old')
    await clock.advance(1_500)
    store.always = refuse
    get('a')
    get('b')
    await settled()
    const [one, two] = [get('c', swr), get('c', swr)]
    await settled()
    expect([one.now, two.now]).toEqual(['old', 'old'])
    expect(unleased()).toEqual({ running: 2, queued: 0 })
    store.calls.length = 0
    get('c', swr)
    await settled()
    expect(store.calls).toEqual([])
  })

  it('are not needed after the store is back, because queued calls look up again', async () => {
    const all = ['a', 'b', 'c'].map((key) => get(key))
    await settled()
    store.always = undefined
    store.hooks.onGap()
    await settled()
    expect(unleased()).toEqual({ running: 2, queued: 0 })
    await origin.run(2).resolve('for c')
    expect(all[2]?.now).toBe('for c')
    expect(transcript.take()).toContain('lease.granted')
  })

  it('are given to queued keys after close(), which does not wait for them', async () => {
    const all = ['a', 'b', 'c', 'd'].map((key) => get(key, { originTimeoutMs: 60_000 }))
    await settled()
    const closed = stampede.close()
    await clock.advance(2_010)
    await closed
    expect(unleased()).toEqual({ running: 2, queued: 2 })
    for (const run of origin.runs) run.resolve('v')
    await settled()
    expect(unleased()).toEqual({ running: 2, queued: 0 })
    for (const run of origin.runs) run.resolve('v')
    await settled()
    expect(all.map(({ now }) => now)).toEqual(['v', 'v', 'v', 'v'])
    expect(stampede.stats().active.flights).toBe(0)
  })
})

describe('concurrency slots while the store is available', () => {
  it('are used by calls after their waitMs, if a slot is free', async () => {
    store.always = undefined
    const all = [1, 2, 3, 4].map(() => get('a', { waitMs: 100, originTimeoutMs: 1_000 }))
    await clock.advance(100)
    expect(origin.calls).toBe(3)
    expect(all[3]?.now).toBe('ERR_STAMPEDE_WAIT_TIMEOUT')
    // A run after `waitMs` has a deadline too.
    await clock.advance(1_000)
    expect(all[2]?.now).toBe('ERR_STAMPEDE_ORIGIN_TIMEOUT')
    expect(unleased().running).toBe(0)
  })
})

describe('OriginSlots', () => {
  it('gives no slot twice, even if a caller returns its slot repeatedly', () => {
    const places = new OriginSlots(1)
    const leave = places.take()
    const turns: string[] = []
    const [one, two] = ['one', 'two'].map((name) =>
      places.queue((next) => {
        turns.push(name)
        next()
        next()
      }),
    )
    one?.()
    leave?.()
    leave?.()
    two?.()
    expect(turns).toEqual(['two'])
    expect([places.taken, places.queued]).toEqual([0, 0])
  })

  it('counts runs above the limit until they end or their time limit is over', async () => {
    const places = new OriginSlots(1)
    const leave = places.takeAboveLimit(clock, 100)
    places.takeAboveLimit(clock, 100)
    expect(places.taken).toBe(2)
    expect(places.take()).toBeUndefined()
    leave()
    await clock.advance(100)
    leave()
    expect(places.taken).toBe(0)
  })
})
