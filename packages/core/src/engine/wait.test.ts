// Tests of the wait for a fill of another process: which events end it, and how long it lasts.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { settled } from '../testing/index.ts'
import {
  begin,
  begun,
  clock,
  end,
  KEY,
  outcome,
  setUp,
  setUpTwo,
  transcript,
} from '../testing/resolve-bench.ts'
import { Gate, refuse } from '../testing/store-doubles.ts'

beforeEach(begin)
afterEach(end)

describe('getOrSet while another process fills', () => {
  it('notices a wake-up that arrives before the reply to its lookup', async () => {
    const { getA, getB, originA, storeB } = setUpTwo()
    const gate = new Gate()
    storeB.next('lookup', gate.delayReply)
    const first = getA()
    await settled()
    const second = await begun(getB())
    originA.run(0).resolve('v')
    await first
    await settled()
    gate.open()
    await settled()
    expect(second.now).toBe('v')
    expect(transcript.take()).not.toContain('b: wait.started')
  })

  it('looks up again after a gap, even if the wake-up was lost', async () => {
    const { getA, getB, originA, storeB } = setUpTwo()
    const first = getA()
    await settled()
    const second = await begun(getB())
    // Process b receives no wake-up.
    storeB.hooks.onWake = () => {}
    transcript.take()
    originA.run(0).resolve('v')
    await first
    await settled()
    storeB.hooks.onGap()
    await settled()
    expect(second.now).toBe('v')
  })

  it('runs the factory without the store if the connection for wake-ups is lost', async () => {
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
})

describe('getOrSet with waitMs', () => {
  it('ends repeated lookups after waitMs even if purges make every reply outdated', async () => {
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
    await origin.run(0).resolve('own')
    expect(asked.now).toBe('own')
  })

  it('releases the lease of a refresh that the store grants after waitMs', async () => {
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
    // The lease was released, so another process can refresh at once.
    expect(await getA(options)).toBe('v')
    await settled()
    expect(originA.calls).toBe(2)
    await originA.run(1).resolve('new')
  })
})
