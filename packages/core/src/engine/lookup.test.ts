// Tests of the lease of a fill: its grant, renewal, loss and release.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { storeUnavailable } from '../errors.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import {
  begin,
  begun,
  clock,
  end,
  NO_L1,
  outcome,
  setUp,
  setUpTwo,
  transcript,
} from '../testing/resolve-bench.ts'
import { Gate, refuse } from '../testing/store-doubles.ts'

beforeEach(begin)
afterEach(end)

describe('the lease of a fill', () => {
  it('does not block the next refresh if no caller waits for it any more', async () => {
    const { store, get, origin, fill } = setUp(NO_L1)
    const swr = { staleWhileRevalidateMs: 60_000, leaseMs: 5_000, waitMs: 100 }
    await fill('old', swr)
    await clock.advance(1_500)
    const gate = new Gate()
    store.next('lookup', gate.delayReply)
    const hasty = outcome(get(swr))
    await clock.advance(100)
    gate.open()
    await settled()
    // The next request gets the lease or finds a running refresh. It does not wait for a lease
    // without a fill.
    const runs = origin.calls
    const next = await begun(get(swr))
    expect(next.now).toBe('old')
    expect(transcript.take()).toContain('fill.started behind')
    for (const run of origin.runs) run.resolve('new')
    await settled()
    expect(origin.calls).toBeGreaterThanOrEqual(runs)
    expect(hasty.now).not.toBe('pending')
  })

  it('is released if the store took the lease but its reply was lost', async () => {
    const { getB, originB, storeA, fillA } = setUpTwo()
    storeA.next('lookup', async (work) => {
      await work()
      throw storeUnavailable('faulty', 'lookup', new Error('no reply within 250 ms'))
    })
    storeA.next('fail', refuse)
    expect(await fillA('own', { leaseMs: 30_000 })).toBe('own')
    // The first release fails, and the second succeeds.
    await clock.advance(150)
    const second = await begun(getB({ leaseMs: 30_000 }))
    await originB.run(0).resolve('v')
    expect(second.now).toBe('v')
    expect(storeA.calls.filter((call) => call.startsWith('fail'))).toHaveLength(2)
  })

  it('is released if the purges cannot be confirmed for its reply', async () => {
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
    const second = await begun(getB())
    originB.runs[0]?.resolve('v')
    await settled()
    expect(second.now).not.toBe('pending')
    await clock.advance(30_100)
    for (const run of originB.runs) run.resolve('v')
    await settled()
  })

  it('is released late without ending the newer lease of the same flight', async () => {
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
    // The store is available again. The flight leaves the queue and gets a lease.
    store.hooks.onGap()
    await clock.advance(100)
    origin.run(0).resolve('v')
    expect(await first).toBe('v')
    busy.run(0).resolve('other')
    await other
    expect(stampede.stats().fills).toMatchObject({ committed: 1, fenced: 0 })
  })

  it('causes an event if it is lost during a fill, and the commit is still tried', async () => {
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
