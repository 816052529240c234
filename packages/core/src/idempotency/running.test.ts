// An attempt at work: its lease, the signal that tells of its loss, and its end, with a store and without.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { IdempotencyBench, NOTHING_LEFT } from '../testing/idempotency-bench.ts'
import type { Fault } from '../testing/idempotency-doubles.ts'
import { type ScriptedRequest, settled } from '../testing/index.ts'
import { loseReply, refuse } from '../testing/store-doubles.ts'

let bench: IdempotencyBench
let ask: ReturnType<IdempotencyBench['route']>

beforeEach(() => {
  bench = new IdempotencyBench()
  ask = bench.route()
})
afterEach(async () => {
  bench.store.heal()
  await bench.clock.advance(130_000)
  expect(bench.left).toEqual(NOTHING_LEFT)
  expect(bench.clock.timers).toBe(0)
  await bench.stampede.close()
})

const hang: Fault = () => new Promise(() => {})
const reason = ({ attempt }: ScriptedRequest) =>
  (attempt.signal.reason as Error | undefined)?.message
const ref = { scope: 'user-1', key: 'k-1' }
const state = async () => (await bench.stampede.idempotency.inspect(ref))?.state

describe('the lease of an attempt', () => {
  it('is renewed at each third, each by itself, until it ends', async () => {
    const all = await Promise.all(['a', 'b', 'c'].map((key) => ask({ key })))
    bench.store.take()
    await bench.clock.advance(40_000)
    expect(bench.store.take()).toEqual(Array(3 * 4).fill('renew 1'))
    for (const each of all) await each.answer()
    bench.store.take()
    await bench.clock.advance(40_000)
    expect(bench.store.take()).toEqual([])
    expect(bench.events.take()).not.toContain('lease.lost')
  })

  it('counts from before it was asked for, also for the first renewal', async () => {
    bench.store.next('begin', async (work) => {
      const reply = await work()
      await new Promise<void>((resolve) => bench.clock.setTimer(600, resolve))
      return reply
    })
    const request = await bench.route({ leaseMs: 900 })()
    await bench.clock.advance(5_000)
    expect(request.attempt.signal.aborted).toBe(false)
    await request.answer()
  })

  it('that was over before its grant was heard of is handed back, and nothing is run', async () => {
    bench.store.next('begin', async (work) => {
      const reply = await work()
      await new Promise<void>((resolve) => bench.clock.setTimer(900, resolve))
      return reply
    })
    const request = await bench.route({ leaseMs: 900 })()
    await bench.clock.advance(900)
    expect(request).toMatchObject({ isRunning: false, got: { status: 409 } })
    expect(bench.left).toEqual(NOTHING_LEFT)
    expect(bench.events.take()).toEqual([
      'lease.lost',
      'finished released, finished',
      'answered in-progress',
    ])
    const next = await ask()
    expect(next.attempt).toMatchObject({ number: 2, isRecovery: false })
    await next.answer()
  })

  it('that was lost while onLeaseExpired was asked runs nothing either', async () => {
    await (await ask()).end({ type: 'unanswered' })
    await bench.clock.advance(30_000)
    const onLeaseExpired = () =>
      new Promise<'takeover'>((resolve) => bench.clock.setTimer(30_000, () => resolve('takeover')))
    bench.store.next('renew', async () => [false])
    const request = await bench.route({ onLeaseExpired })()
    await bench.clock.advance(30_000)
    expect(request).toMatchObject({ isRunning: false, got: { status: 409 } })
    expect(bench.left).toEqual(NOTHING_LEFT)
  })

  it('is over for a handler that asks after a suspension, before any timer has run', async () => {
    const request = await ask()
    expect(request.attempt.signal.aborted).toBe(false)
    bench.clock.stall(30_000)
    expect(request.attempt.signal.aborted).toBe(true)
    await request.answer()
  })

  it('is over by our own clock when it could not be renewed, and duplicates may ask again', async () => {
    const request = await ask()
    bench.store.always = refuse
    await bench.clock.advance(29_697)
    expect(reason(request)).toBeUndefined()
    await bench.clock.advance(1)
    expect(reason(request)).toBe(
      'this attempt lost its lease: it was not renewed in time; stop, because its result will not be stored',
    )
    expect(request.attempt.signal.reason).toMatchObject({ code: 'ERR_STAMPEDE_LEASE_LOST' })
    bench.store.take()
    expect((await ask()).got?.status).toBe(503)
    bench.store.heal()
    await request.answer()
  })

  it('is over when the store says so', async () => {
    const request = await ask()
    bench.store.next('renew', async () => [false])
    await bench.clock.advance(10_000)
    expect(reason(request)).toMatch(/another attempt has it, or the store lost it/)
    expect(bench.events.take()).toEqual(['answered started', 'lease.lost'])
    await request.answer()
  })

  it('is given up at maxHoldMs, however alive it is; the next one runs after it', async () => {
    ask = bench.route({ maxHoldMs: 45_000 })
    const request = await ask()
    await bench.clock.advance(44_999)
    expect(request.attempt.signal.aborted).toBe(false)
    await bench.clock.advance(1)
    expect(reason(request)).toMatch(/maxHoldMs \(45000\)/)
    expect((await ask()).got?.status).toBe(409)
    bench.store.take()
    await bench.clock.advance(30_000)
    const next = await ask()
    expect(next.attempt).toMatchObject({ number: 2, isRecovery: true })
    expect(bench.store.take()).toEqual(['begin'])
    await next.answer({ body: 'second' })
    await request.answer({ body: 'first' })
    expect((await ask()).got?.body).toBe('second')
  })
})

describe('the end of an attempt', () => {
  const finished = () => bench.events.take().filter((line) => line.startsWith('finished'))

  it('counts after its lease was over, as long as nobody took over', async () => {
    const request = await ask()
    bench.store.always = refuse
    await bench.clock.advance(40_000)
    bench.store.heal()
    await request.answer({ body: 'late' })
    expect(finished()).toEqual(['finished completed, finished'])
    expect((await ask()).got?.body).toBe('late')
  })

  it('does not count once another took over; its own client is answered all the same', async () => {
    const frozen = await ask()
    bench.store.always = refuse
    await bench.clock.advance(30_001)
    bench.store.heal()
    const next = await ask()
    expect(next.attempt.fence).toBeGreaterThan(frozen.attempt.fence ?? 0n)
    await frozen.answer({ body: 'frozen' })
    expect(frozen.got?.body).toBe('frozen')
    expect((await ask()).got?.status).toBe(409)
    await next.answer({ body: 'next' })
    expect(finished()).toEqual(['finished completed, stale', 'finished completed, finished'])
    expect((await ask()).got?.body).toBe('next')
  })

  it('puts a record that was lost there again, but not one that was only released', async () => {
    for (const status of [500, 201]) {
      const request = await ask()
      bench.store.next('finish', async (work) => {
        await bench.store.close()
        return work()
      })
      await request.answer({ status })
      bench.rt.replays.clear()
    }
    expect(finished()).toEqual(['finished released, stale', 'finished completed, resurrected'])
    expect(await state()).toBe('completed')
  })

  it('that was stored without our hearing of it is stored once', async () => {
    const request = await ask()
    bench.store.next('finish', loseReply)
    await request.answer({ body: 'made' })
    await bench.clock.advance(100)
    expect(finished()).toEqual(['finished completed, late', 'finished completed, finished'])
  })
})

describe('when the store is away at the end', () => {
  async function finishWithout(answer = {}): Promise<ScriptedRequest> {
    const request = await ask()
    bench.store.always = refuse
    await request.answer({ body: 'made', ...answer })
    bench.store.take()
    bench.events.take()
    return request
  }

  it('the client is answered, and duplicates here too, without the store', async () => {
    const request = await finishWithout()
    expect(request.got?.body).toBe('made')
    expect(bench.stampede.stats().idempotency).toEqual({ running: 0, unstored: 1 })
    expect((await ask()).got).toMatchObject({ by: 'core', body: 'made' })
    expect((await ask({ body: 'other' })).got?.status).toBe(422)
    expect(bench.store.take()).toEqual([])
  })

  it('it is remembered that it was done, also where there is no room for what it answered', async () => {
    const large = 'x'.repeat(40 * 1024 * 1024)
    ask = bench.route({ maxBodyBytes: large.length })
    await finishWithout({ body: large })
    const other = await ask({ key: 'k-2' })
    expect(other.got?.status).toBe(503)
    bench.store.heal()
    const second = await ask({ key: 'k-2' })
    bench.store.always = refuse
    await second.answer({ status: 201, body: large })
    expect((await ask({ key: 'k-2' })).got?.body).toHaveLength(large.length)
    expect((await ask()).got).toMatchObject({ by: 'core', status: 409 })
    bench.store.heal()
    await bench.clock.advance(10_000)
    expect(bench.stampede.stats().idempotency.unstored).toBe(0)
    expect((await ask()).got).toMatchObject({ by: 'core', status: 409 })
    expect(await state()).toBe('completed')
  })

  it('a client is kept for a second at most', async () => {
    const request = await ask()
    bench.store.always = hang
    void request.answer()
    await bench.clock.advance(999)
    expect(request.got).toBeUndefined()
    await bench.clock.advance(1)
    expect(request.got?.status).toBe(200)
  })

  it('it is tried again, less and less often', async () => {
    await finishWithout()
    const startedAt = bench.clock.now()
    const times: number[] = []
    bench.store.always = async () => {
      if (bench.store.take().includes('finish completed')) times.push(bench.clock.now() - startedAt)
      throw new Error('away')
    }
    await bench.clock.advance(18_000)
    expect(times).toEqual([100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300])
  })

  it('it is tried again at once when the store is back, then stored for all', async () => {
    await finishWithout()
    await bench.clock.advance(10_000)
    bench.store.heal()
    bench.store.take()
    bench.store.hooks.onGap()
    await settled()
    expect(bench.store.take()).toEqual(['finish completed'])
    expect(bench.left).toEqual(NOTHING_LEFT)
    expect(await state()).toBe('completed')
  })

  it('it is tried again at once when commands can be sent again', async () => {
    await finishWithout()
    await bench.clock.advance(10_000)
    bench.store.heal()
    bench.store.take()
    bench.store.hooks.onBack()
    await settled()
    expect(bench.store.take()).toEqual(['finish completed'])
    expect(await state()).toBe('completed')
  })

  it('its lease is renewed meanwhile, so that nobody else begins', async () => {
    const request = await ask()
    bench.store.next('finish', refuse)
    for (let i = 0; i < 40; i++) bench.store.next('finish', refuse)
    await request.answer()
    await bench.clock.advance(90_000)
    expect(await state()).toBe('running')
    bench.store.heal()
    await bench.clock.advance(5_000)
    expect(await state()).toBe('completed')
  })

  it('a release is tried again too, and answers nobody', async () => {
    await finishWithout({ status: 500 })
    bench.store.always = undefined
    expect((await ask()).got?.status).toBe(409)
    await bench.clock.advance(100)
    expect(bench.events.take()).toContain('finished released, finished')
    await (await ask()).answer()
  })

  it('it is given up after what it would have been kept for', async () => {
    ask = bench.route({ retentionMs: 60_000 })
    await finishWithout()
    await bench.clock.advance(66_000)
    expect(bench.left).toEqual(NOTHING_LEFT)
    expect((await ask()).got?.status).toBe(503)
  })

  it('what came after it is not hidden by it', async () => {
    const frozen = await ask()
    bench.store.always = refuse
    await bench.clock.advance(30_001)
    bench.store.heal()
    const next = await ask()
    bench.store.next('finish', refuse)
    await frozen.answer({ body: 'frozen' })
    expect((await ask()).got?.status).toBe(409)
    await next.answer({ body: 'next' })
    expect((await ask()).got?.body).toBe('next')
  })

  it('nor is what was completed before it ended', async () => {
    const frozen = await ask()
    bench.store.always = refuse
    await bench.clock.advance(30_001)
    bench.store.heal()
    await (await ask()).answer({ body: 'next' })
    bench.store.next('finish', refuse)
    await frozen.answer({ body: 'frozen' })
    expect((await ask()).got?.body).toBe('next')
  })
})
