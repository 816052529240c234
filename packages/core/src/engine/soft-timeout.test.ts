// Tests of softTimeoutMs: fills that take too long, and the responses to requests during such
// fills.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Stampede } from '../index.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import {
  a,
  b,
  beginTwo,
  clock,
  end,
  outcome,
  stores,
  transcript,
} from '../testing/resolve-bench.ts'
import { refuse } from '../testing/store-doubles.ts'

const OPTIONS = { ttlMs: 1_000, jitter: 0, staleIfErrorMs: 60_000, softTimeoutMs: 300 }

let origin: ScriptedOrigin<unknown>
beforeEach(async () => {
  beginTwo()
  origin = new ScriptedOrigin()
  // Both processes have one value in memory, which may only be served in place of an error.
  const first = get(a)
  await settled()
  await origin.run(0).resolve('old')
  const second = get(b)
  await settled()
  expect([first.now, second.now]).toEqual(['old', 'old'])
  await clock.advance(1_500)
  transcript.take()
})
afterEach(end)

const get = (stampede: Stampede, options = {}) =>
  outcome(stampede.getOrSet('k', origin.factory, { ...OPTIONS, ...options }))

describe('a fill that exceeds softTimeoutMs', () => {
  it('gives waiters and later requests a stale-if-error entry, and is still stored', async () => {
    const waiting = [get(a), get(a)]
    await clock.advance(299)
    expect(waiting.map(({ now }) => now)).toEqual(['pending', 'pending'])
    await clock.advance(1)
    const later = get(a)
    await settled()
    expect([...waiting, later].map(({ now }) => now)).toEqual(['old', 'old', 'old'])
    expect(a.stats().stale['soft-timeout']).toBe(3)
    await origin.run(1).resolve('new')
    const after = get(a)
    await settled()
    expect(after.now).toBe('new')
    expect(origin.calls).toBe(2)
    expect(transcript.take()).toEqual([
      ...['a: lease.granted', 'a: fill.started behind'],
      ...['a: stale.served', 'a: stale.served', 'a: stale.served'],
      ...['a: fill.committed', 'a: hit l1'],
    ])
  })

  it('makes another process serve its own copy for stale-if-error, too', async () => {
    get(a)
    await settled()
    const other = get(b)
    await clock.advance(300)
    expect(other.now).toBe('old')
    await origin.run(1).resolve('new')
    expect(b.stats().active.flights).toBe(0)
  })
})

describe('a stale-if-error value', () => {
  it.each([
    ['key', { key: 'k' }],
    ['everything', { all: true }],
  ] as const)('is not served if it was purged meanwhile, by %s', async (_, target) => {
    const waiting = get(a)
    await clock.advance(100)
    await a.purge(target)
    await clock.advance(300)
    expect(waiting.now).toBe('pending')
    await origin.run(1).resolve('purged')
    expect(waiting.now).toBe('pending')
    await origin.run(2).resolve('new')
    expect(waiting.now).toBe('new')
  })

  it.each([
    [false, 'pending'],
    [true, 'old'],
  ])(
    'is served only if the process confirmed in the last 5 s that it missed no purge: %s',
    async (...row) => {
      const [isConfirmed, now] = row
      stores.a.confirmed = clock.now()
      const waiting = get(a, { softTimeoutMs: 5_001 })
      await clock.advance(5_000)
      if (isConfirmed) stores.a.confirmed = clock.now()
      await clock.advance(1)
      expect(waiting.now).toBe(now)
      await origin.run(1).resolve('new')
      expect(waiting.now).toBe(isConfirmed ? 'old' : 'new')
    },
  )

  it.each([
    [3_200, 'old'],
    [3_201, 'pending'],
  ])(
    'counts these 5 s from its own fill if the store is unavailable %d ms later',
    async (ms, now) => {
      stores.a.confirmed = clock.now() - 60_000
      await clock.advance(ms - 1)
      stores.a.always = refuse
      const waiting = get(a)
      await clock.advance(299)
      expect(waiting.now).toBe('pending')
      await clock.advance(1)
      expect(waiting.now).toBe(now)
      await origin.run(1).resolve('new')
    },
  )
})
