// From a key to the right to run it: what this process knows, one question to the store, waiting.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type BenchOptions, IdempotencyBench, NOTHING_LEFT } from '../testing/idempotency-bench.ts'
import { ManualClock, type ScriptedRequest, settled } from '../testing/index.ts'
import { Gate, refuse, sharedStores } from '../testing/store-doubles.ts'

let clock: ManualClock
/** Two processes on the same records. */
let here: IdempotencyBench
let there: IdempotencyBench

beforeEach(() => {
  clock = new ManualClock()
  const { a, b } = sharedStores()
  here = new IdempotencyBench({ clock, store: a })
  there = new IdempotencyBench({ clock, store: b })
})
afterEach(async () => {
  await clock.advance(120_000)
  expect([here.left, there.left]).toEqual([NOTHING_LEFT, NOTHING_LEFT])
  expect(clock.timers).toBe(0)
  await Promise.all([here.stampede.close(), there.stampede.close()])
})

const many = <T>(count: number, make: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, make))
const statuses = (requests: readonly ScriptedRequest[]) => requests.map(({ got }) => got?.status)
const wait = { onBusy: 'wait' } as const

describe('at the same moment', () => {
  it('40 requests of one key are one question, and one of them runs', async () => {
    const all = await many(40, here.route())
    expect(here.store.take()).toEqual(['begin'])
    const [first, ...others] = all
    expect(first?.isRunning).toBe(true)
    expect(new Set(statuses(others))).toEqual(new Set([409]))
    await first?.answer()
  })

  it('40 that wait are one question too, and all get the answer of the one that ran', async () => {
    const all = await many(40, here.route(wait))
    expect(here.store.take()).toEqual(['begin, wait'])
    const [first, ...others] = all
    expect(first?.isRunning).toBe(true)
    await first?.answer({ body: 'made' })
    await settled()
    expect(new Set(others.map(({ got }) => got?.body))).toEqual(new Set(['made']))
    expect(here.store.take()).toEqual(['finish completed'])
  })

  it('40 of what was done elsewhere are one question', async () => {
    await (await there.route()()).answer({ body: 'made' })
    const all = await many(40, here.route())
    expect(here.store.take()).toEqual(['begin'])
    expect(all.map(({ got }) => got?.body)).toEqual(Array(40).fill('made'))
  })

  it('one with another body is told so, whoever was first', async () => {
    const ask = here.route()
    const [first, other] = await Promise.all([ask({ body: 'a' }), ask({ body: 'b' })])
    expect([first.isRunning, other.got?.status]).toEqual([true, 422])
    await first.answer()
  })

  it('all are refused when the store is away, and the next asks again', async () => {
    here.store.next('begin', refuse)
    expect(new Set(statuses(await many(40, here.route())))).toEqual(new Set([503]))
    expect(here.store.take()).toEqual(['begin'])
    await (await here.route()()).answer()
  })

  it('two processes run it once', async () => {
    const [first, other] = await Promise.all([here.route()(), there.route()()])
    expect([first.isRunning, other.got?.status]).toEqual([true, 409])
    await first.answer()
  })
})

describe('what this process knows, it does not ask for', () => {
  it('that it is at work', async () => {
    const ask = here.route()
    const first = await ask({ body: 'a' })
    here.store.take()
    expect(statuses([await ask({ body: 'a' }), await ask({ body: 'b' })])).toEqual([409, 422])
    expect(here.store.take()).toEqual([])
    await first.answer()
  })

  it('what was answered, and to what: another request is told so first', async () => {
    const ask = here.route()
    await (await ask({ body: 'a' })).answer()
    here.store.take()
    expect(statuses([await ask({ body: 'a' }), await ask({ body: 'b' })])).toEqual([200, 422])
    expect(here.store.take()).toEqual([])
  })

  it('unless it would not hear of an operator, or missed something', async () => {
    const ask = here.route()
    await (await ask()).answer()
    here.store.take()
    here.store.hearing = false
    await ask()
    expect(here.store.take()).toEqual(['begin'])
    here.store.hearing = true
    await ask()
    expect(here.store.take()).toEqual([])
    here.store.hooks.onGap()
    await ask()
    expect(here.store.take()).toEqual(['begin'])
  })

  it('for a minute, and not for longer than it is kept', async () => {
    const ask = here.route()
    await (await ask()).answer()
    await clock.advance(59_999)
    await ask()
    here.store.take()
    await clock.advance(1)
    await ask()
    expect(here.store.take()).toEqual(['begin'])
    const short = here.route({ retentionMs: 1_000 })
    await (await short({ key: 'k-2' })).answer()
    await clock.advance(1_000)
    const later = await short({ key: 'k-2' })
    expect(later.isRunning).toBe(true)
    await later.answer()
  })

  it('until an operator says otherwise, here or elsewhere', async () => {
    const ref = { scope: 'user-1', key: 'k-1' }
    const ask = here.route()
    for (const process of [here, there]) {
      await (await ask()).answer({ body: 'made' })
      await process.stampede.idempotency.release(ref, { force: true })
      if (process === there) await settled()
      const again = await ask()
      expect(again.isRunning).toBe(true)
      await again.answer({ body: 'made' })
      await process.stampede.idempotency.resolve(ref, { body: 'settled' }, { force: true })
      await settled()
      expect((await ask()).got?.body).toBe('settled')
      await process.stampede.idempotency.release(ref, { force: true })
      await settled()
    }
  })

  it('that an operator voided the attempt at work, here or elsewhere: the next one runs', async () => {
    const ref = { scope: 'user-1', key: 'k-1' }
    for (const process of [here, there]) {
      const voided = await here.route()()
      await process.stampede.idempotency.release(ref, { force: true })
      if (process === there) await settled()
      expect(voided.attempt.signal.aborted).toBe(true)
      const next = await here.route()()
      expect(next.isRunning).toBe(true)
      await voided.answer({ body: 'late' })
      await next.answer({ status: 500 })
    }
  })
})

describe('waiting for an attempt elsewhere', () => {
  let first: ScriptedRequest
  let waiting: ScriptedRequest

  async function begin(options = {}): Promise<void> {
    first = await there.route()()
    waiting = await here.route({ ...wait, ...options })()
    expect(waiting.got).toBeUndefined()
    here.store.take()
    here.events.take()
  }

  it('ends when it answers: one more question, and its answer', async () => {
    await begin()
    await first.answer({ status: 201, body: 'made' })
    await settled()
    expect(waiting.got).toMatchObject({ by: 'core', status: 201, body: 'made' })
    expect(here.store.take()).toEqual(['begin, wait'])
    expect(here.events.take()).toEqual(['answered replayed-after-wait'])
  })

  it('ends when it is released, and then runs', async () => {
    await begin()
    await first.answer({ status: 500 })
    await settled()
    expect(waiting.attempt).toMatchObject({ number: 2, isRecovery: false })
    await waiting.answer()
  })

  it('asks again after messages were lost', async () => {
    await begin()
    here.store.hooks.onGap()
    await settled()
    expect(here.store.take()).toEqual(['begin, wait'])
    expect(waiting.got).toBeUndefined()
    await first.answer()
    await settled()
    expect(waiting.got?.status).toBe(200)
  })

  it('is refused when the store is lost, and not as one that nobody runs', async () => {
    await begin()
    here.store.next('begin', refuse)
    here.store.hooks.onLost()
    await settled()
    expect(waiting.got?.status).toBe(409)
    await first.answer()
  })

  it('ends with the lease of one that died, without a message', async () => {
    await begin({ onBusy: { waitMs: 60_000 } })
    await first.end({ type: 'unanswered' })
    await clock.advance(30_004)
    expect(waiting.isRunning).toBe(false)
    await clock.advance(1)
    expect(waiting.attempt).toMatchObject({ number: 2, isRecovery: true })
    await waiting.answer()
  })

  it('ends after waitMs: it is still in progress', async () => {
    await begin({ onBusy: { waitMs: 2_000 } })
    await clock.advance(1_999)
    expect(waiting.got).toBeUndefined()
    await clock.advance(1)
    expect(waiting.got?.status).toBe(409)
    expect(waiting.field('retry-after')).toBe('1')
    await first.answer()
  })

  it('hears of an end between its question and its sleep', async () => {
    first = await there.route()()
    const gate = new Gate()
    here.store.next('begin', gate.delayReply)
    waiting = await here.route(wait)()
    await first.answer({ body: 'made' })
    await settled()
    gate.open()
    await settled()
    expect(waiting.got?.body).toBe('made')
  })

  it('hears of an end before it came, while the question was under way that it shares', async () => {
    first = await there.route()()
    const gate = new Gate()
    here.store.next('begin', gate.delayReply)
    const ask = here.route(wait)
    waiting = await ask()
    // Its message overtakes the reply.
    await first.answer({ body: 'made' })
    await settled()
    const late = await ask()
    gate.open()
    await settled()
    expect([waiting.got?.body, late.got?.body]).toEqual(['made', 'made'])
  })

  it('runs nothing once this process is being closed', async () => {
    await begin()
    const closed = here.stampede.close()
    await first.answer({ status: 500 })
    await clock.advance(2_100)
    await closed
    expect(waiting).toMatchObject({ isRunning: false, got: { status: 409 } })
  })
})

describe('no more than maxWaiters', () => {
  const few = { onBusy: { waitMs: 10_000, maxWaiters: 2 } }

  it('wait for one key, and the others are refused at once', async () => {
    const first = await there.route()()
    const all = await many(4, here.route(few))
    expect(statuses(all)).toEqual([undefined, undefined, 409, 409])
    await first.answer()
    await settled()
    expect(statuses(all)).toEqual([200, 200, 409, 409])
  })

  it('count again from 0 when they have left, however they left', async () => {
    const ask = here.route(few)
    for (const way of ['answer', 'deadline', 'lost']) {
      const first = await there.route()({ key: way })
      const all = await many(2, () => ask({ key: way }))
      expect(statuses(all)).toEqual([undefined, undefined])
      if (way === 'deadline') await clock.advance(10_000)
      if (way === 'lost') {
        here.store.next('begin', refuse)
        here.store.hooks.onLost()
        await settled()
      }
      if (way !== 'answer') {
        expect(statuses(all)).toEqual([409, 409])
        expect(statuses(await many(3, () => ask({ key: way })))).toEqual([
          undefined,
          undefined,
          409,
        ])
      }
      await first.answer()
      await settled()
    }
  })

  it('nor for one that runs here', async () => {
    const ask = here.route(few)
    const first = await ask()
    expect(statuses(await many(3, ask))).toEqual([undefined, undefined, 409])
    await first.answer()
  })
})

describe('a process that is cut off from the store after its client got the answer', () => {
  /** The client of `there` has its 201, and the store has no word of it. */
  async function answeredWithout(options: BenchOptions) {
    const first = await there.route(options)()
    there.store.always = refuse
    await first.answer({ status: 201, body: 'order 1' })
    expect(first.got).toMatchObject({ status: 201, body: 'order 1' })
  }

  it('for longer than its lease has another process run the handler again, which is told so', async () => {
    await answeredWithout({})
    expect((await here.route()()).got?.status).toBe(409)
    await clock.advance(30_001)
    const second = await here.route()()
    expect(second.isRunning).toBe(true)
    expect(second.attempt).toMatchObject({ number: 2, isRecovery: true })
    await second.answer({ status: 201, body: 'order 2' })
    there.store.heal()
    await clock.advance(10_000)
    expect(there.left).toEqual(NOTHING_LEFT)
    expect((await there.route()()).got?.body).toBe('order 2')
  })

  it("for longer than its lease has no handler run with onLeaseExpired: 'uncertain', and the answer counts", async () => {
    const options = { onLeaseExpired: 'uncertain' } as const
    await answeredWithout(options)
    await clock.advance(30_001)
    const second = await here.route(options)()
    expect(second).toMatchObject({ isRunning: false, got: { by: 'core', status: 409 } })
    there.store.heal()
    await clock.advance(10_000)
    expect((await here.route(options)()).got).toMatchObject({ status: 201, body: 'order 1' })
  })

  it('for less than its lease has the answer stored, and the handler not run', async () => {
    await answeredWithout({})
    await clock.advance(20_000)
    there.store.heal()
    await clock.advance(5_000)
    expect((await here.route()()).got).toMatchObject({ status: 201, body: 'order 1' })
  })
})
