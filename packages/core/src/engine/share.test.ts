// Tests of commits whose reply is lost, delayed or a refusal.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { settled } from '../testing/index.ts'
import { resolve } from '../testing/resolve.ts'
import {
  begin,
  begun,
  clock,
  end,
  entry,
  KEY,
  LIVES,
  NO_L1,
  outcome,
  PASS,
  POLICY,
  STORE,
  scripted,
  setUp,
  transcript,
} from '../testing/resolve-bench.ts'
import { refuse } from '../testing/store-doubles.ts'

beforeEach(begin)
afterEach(end)

describe('a commit', () => {
  it('is not sent for an entry that expired before the end of its fill', async () => {
    const { rt, store } = setUp()
    const { caller, origin } = scripted()
    const all = [1, 2].map(() => outcome(resolve(rt, KEY, POLICY, caller)))
    await settled()
    const bornAt = clock.now()
    await clock.advance(LIVES.freshMs)
    transcript.take()
    await origin.run(0).resolve({ type: 'store', entry, lifetimes: LIVES, bornAt })
    expect(all.map(({ now }) => (now as { type: string }).type)).toEqual(['led', 'hit'])
    expect(store.calls.filter((call) => call.startsWith('commit'))).toEqual([])
    expect(transcript.take()).toEqual(['fill.passed expired'])
    expect(rt.counts.notCached).toEqual(new Map([['(data)', new Map([['expired', 1]])]]))
  })

  it('leaves 300 ms of a lifetime of 1 s in the store if it is repeated after 700 ms', async () => {
    const { get, origin, store, fill } = setUp(NO_L1)
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
    expect(await fill('new')).toBe('new')
  })

  it.each(['with L1', 'without L1'])(
    'counts the age of an unchanged entry from the 304 of the origin, %s',
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
      origin.run(1).resolve({ type: 'store', entry, lifetimes: kept, bornAt })
      await clock.advance(399)
      expect(await resolve(rt, KEY, POLICY, caller)).toMatchObject({ type: 'hit', stale: false })
      await clock.advance(1)
      const next = await begun(Promise.resolve(resolve(rt, KEY, POLICY, caller)))
      expect(next.now).toBe('pending')
      await origin.run(2).resolve(PASS)
    },
  )

  it('lets this process use the entry for at most 5 s if the store never gets the commit', async () => {
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
    const late = await begun(get(options))
    expect(late.now).toBe('pending')
    await origin.run(1).resolve('new')
    expect(late.now).toBe('new')
  })

  it('releases its lease if the store never gets the commit', async () => {
    const { get, origin, store, fill } = setUp(NO_L1)
    store.next('commit', refuse).next('commit', refuse)
    const options = { ttlMs: 50_000, leaseMs: 60_000 }
    await fill('v', options)
    await clock.advance(100)
    const second = await begun(get(options))
    expect(origin.calls).toBe(2)
    await origin.run(1).resolve('w')
    expect(second.now).toBe('w')
  })

  it('makes waiters look up again if the store refuses it, and one of them leads next', async () => {
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
})
