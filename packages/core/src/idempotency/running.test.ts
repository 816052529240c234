// A running attempt: its lease, its signal, and its end, with a store and without.

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
afterEach(() => bench.end())

const hang: Fault = () => new Promise(() => {})
const reason = ({ attempt }: ScriptedRequest) =>
  (attempt.signal.reason as Error | undefined)?.message
const ref = { scope: 'user-1', key: 'k-1' }
const state = async () => (await bench.stampede.idempotency.inspect(ref))?.state

describe('the lease of an attempt', () => {
  it('is renewed at each third of its length until the attempt ends', async () => {
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

  it('counts from the sending of the begin command, also for the first renewal', async () => {
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

  it('is released without a run if it ended before the reply came', async () => {
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

  it('is over for a handler after a suspension, even before a timer runs', async () => {
    const request = await ask()
    expect(request.attempt.signal.aborted).toBe(false)
    bench.clock.stall(30_000)
    expect(request.attempt.signal.aborted).toBe(true)
    await request.answer()
  })

  it('is over by the clock of its process if no renewal succeeded', async () => {
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

  it('is over when the store refuses the renewal', async () => {
    const request = await ask()
    bench.store.next('renew', async () => [false])
    await bench.clock.advance(10_000)
    expect(reason(request)).toMatch(/another attempt has it, or the store lost it/)
    expect(bench.events.take()).toEqual(['answered started', 'lease.lost'])
    await request.answer()
  })

  it('is given up after 10 minutes in a live process, and the next request runs', async () => {
    const request = await ask()
    await bench.clock.advance(599_999)
    expect(request.attempt.signal.aborted).toBe(false)
    await bench.clock.advance(1)
    expect(reason(request)).toMatch(/the hold time \(600000 ms\)/)
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

it('keeps an attempt for 20 leases, and for at least 10 minutes', async () => {
  for (const [leaseMs, graceMs] of [
    [100, 600_000],
    [90_000, 1_800_000],
  ] as const) {
    const request = await bench.route({ leaseMs })({ key: `${leaseMs}` })
    expect(request.observer.graceMs).toBe(graceMs)
    await request.answer()
  }
})

describe('the result of an attempt', () => {
  const finished = () => bench.events.take().filter((line) => line.startsWith('finished'))

  it('is refused after a takeover, and the client still gets the response', async () => {
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

  it('is stored once after a lost reply', async () => {
    const request = await ask()
    bench.store.next('finish', loseReply)
    await request.answer({ body: 'made' })
    await bench.clock.advance(100)
    expect(finished()).toEqual(['finished completed, late', 'finished completed, finished'])
  })
})

describe('the result of an attempt while the store is unavailable', () => {
  async function finishWithout(answer = {}): Promise<ScriptedRequest> {
    const request = await ask()
    bench.store.always = refuse
    await request.answer({ body: 'made', ...answer })
    bench.store.take()
    bench.events.take()
    return request
  }

  it('reaches the client and duplicates in this process', async () => {
    const request = await finishWithout()
    expect(request.got?.body).toBe('made')
    expect(bench.stampede.stats().idempotency).toMatchObject({ running: 0, unstored: 1 })
    expect((await ask()).got).toMatchObject({ by: 'core', body: 'made' })
    expect((await ask({ body: 'other' })).got?.status).toBe(422)
    expect(bench.store.take()).toEqual([])
  })

  it('is still known if there is no room for the response', async () => {
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

  it('delays the client by at most a second', async () => {
    const request = await ask()
    bench.store.always = hang
    void request.answer()
    await bench.clock.advance(999)
    expect(request.got).toBeUndefined()
    await bench.clock.advance(1)
    expect(request.got?.status).toBe(200)
  })

  it('is tried again with growing pauses', async () => {
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

  it('is stored at once when the store is back, for all processes', async () => {
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

  it('is stored at once when commands can be sent again', async () => {
    await finishWithout()
    await bench.clock.advance(10_000)
    bench.store.heal()
    bench.store.take()
    bench.store.hooks.onBack()
    await settled()
    expect(bench.store.take()).toEqual(['finish completed'])
    expect(await state()).toBe('completed')
  })

  it('keeps the lease of the attempt, so that no other attempt begins', async () => {
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

  it('is also tried again if it is a release', async () => {
    await finishWithout({ status: 500 })
    bench.store.always = undefined
    expect((await ask()).got?.status).toBe(409)
    await bench.clock.advance(100)
    expect(bench.events.take()).toContain('finished released, finished')
    await (await ask()).answer()
  })

  it('is given up after its retention', async () => {
    ask = bench.route({ retentionMs: 60_000 })
    await finishWithout()
    await bench.clock.advance(66_000)
    expect(bench.left).toEqual(NOTHING_LEFT)
    expect((await ask()).got?.status).toBe(503)
  })

  it('does not hide a later attempt from requests', async () => {
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

  it('does not hide an attempt that completed before the result was stored', async () => {
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
