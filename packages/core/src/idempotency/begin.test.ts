// Begins an attempt or gets a result: from memory, by one command, or after a wait.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type BenchOptions, IdempotencyBench, NOTHING_LEFT } from '../testing/idempotency-bench.ts'
import { ManualClock, type ScriptedRequest, settled } from '../testing/index.ts'
import { Gate, loseReply, refuse, sharedStores } from '../testing/store-doubles.ts'

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

describe('a begin command whose reply is lost', () => {
  it('leaves a key under which the next request runs at once', async () => {
    here.store.next('begin', loseReply)
    expect((await here.route()()).got?.status).toBe(503)
    expect(here.store.take()).toEqual(['begin', 'finish released'])
    const repeat = await there.route()()
    expect(repeat.isRunning).toBe(true)
    await repeat.answer()
  })

  it('is followed by four releases in two seconds', async () => {
    here.store.next('begin', loseReply)
    for (let i = 0; i < 4; i++) here.store.next('finish', loseReply)
    await here.route()()
    here.store.take()
    const sent: number[] = []
    for (let ms = 0; ms <= 3_000; ms += 100) {
      if (here.store.take().length > 0) sent.push(ms)
      await clock.advance(100)
    }
    expect(sent).toEqual([100, 500, 2_000])
  })

  it('is followed by no release if the store refused the command', async () => {
    here.store.next('begin', refuse)
    await here.route()()
    await clock.advance(3_000)
    expect(here.store.take()).toEqual(['begin'])
  })
})

describe('concurrent requests with one idempotency key', () => {
  it('cause one begin command, and one request runs', async () => {
    const all = await many(40, here.route())
    expect(here.store.take()).toEqual(['begin'])
    const [first, ...others] = all
    expect(first?.isRunning).toBe(true)
    expect(new Set(statuses(others))).toEqual(new Set([409]))
    await first?.answer()
  })

  it('cause one begin command if onBusy is wait, and all get the response', async () => {
    const all = await many(40, here.route(wait))
    expect(here.store.take()).toEqual(['begin, wait'])
    const [first, ...others] = all
    expect(first?.isRunning).toBe(true)
    await first?.answer({ body: 'made' })
    await settled()
    expect(new Set(others.map(({ got }) => got?.body))).toEqual(new Set(['made']))
    expect(here.store.take()).toEqual(['finish completed'])
  })

  it('get a mismatch if their body differs, in any order', async () => {
    const ask = here.route()
    const [first, other] = await Promise.all([ask({ body: 'a' }), ask({ body: 'b' })])
    expect([first.isRunning, other.got?.status]).toEqual([true, 422])
    await first.answer()
  })

  it('are all refused while the store is unavailable, and the next request tries again', async () => {
    here.store.next('begin', refuse)
    expect(new Set(statuses(await many(40, here.route())))).toEqual(new Set([503]))
    expect(here.store.take()).toEqual(['begin'])
    await (await here.route()()).answer()
  })
})

describe('the memory of a process for idempotency keys', () => {
  it('refuses a duplicate of a running attempt without a store command', async () => {
    const ask = here.route()
    const first = await ask({ body: 'a' })
    here.store.take()
    expect(statuses([await ask({ body: 'a' }), await ask({ body: 'b' })])).toEqual([409, 422])
    expect(here.store.take()).toEqual([])
    await first.answer()
  })

  it('replays a response without a store command, if the fingerprint is equal', async () => {
    const ask = here.route()
    await (await ask({ body: 'a' })).answer()
    here.store.take()
    expect(statuses([await ask({ body: 'a' }), await ask({ body: 'b' })])).toEqual([200, 422])
    expect(here.store.take()).toEqual([])
  })

  it('forgets a response if settlements by an operator may be missed', async () => {
    const ask = here.route()
    await (await ask()).answer()
    here.store.take()
    here.store.isReceiving = false
    await ask()
    expect(here.store.take()).toEqual(['begin'])
    here.store.isReceiving = true
    await ask()
    expect(here.store.take()).toEqual([])
    here.store.hooks.onGap()
    await ask()
    expect(here.store.take()).toEqual(['begin'])
  })

  it('keeps a response for a minute, and not beyond its retention', async () => {
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

  it('keeps a response until an operator settles the key in any process', async () => {
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

  it('forgets a running attempt that an operator has ended in any process', async () => {
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

describe('a reply from before an operator settled its key', () => {
  const ref = { scope: 'user-1', key: 'k-1' }
  const force = { force: true }
  type Settles = (by: IdempotencyBench) => Promise<unknown>
  const released: Settles = ({ stampede }) => stampede.idempotency.release(ref, force)
  const resolved: Settles = ({ stampede }) =>
    stampede.idempotency.resolve(ref, { body: 'settled' }, force)
  it.each(
    (['release', 'resolve', 'release and a gap'] as const).flatMap((how) =>
      (['here', 'there'] as const).flatMap((where) =>
        [{}, wait].map((options) => [how, where, JSON.stringify(options), options] as const),
      ),
    ),
  )('is neither shared with later requests nor kept: %s by an operator %s, %s', async (...row) => {
    const [how, where, , options] = row
    await (await there.route()()).answer({ body: 'old' })
    const gate = new Gate()
    here.store.next('begin', gate.delayReply)
    const ask = here.route(options)
    const early = await ask()
    await (how === 'resolve' ? resolved : released)(where === 'here' ? here : there)
    if (how === 'release and a gap') here.store.hooks.onGap()
    await settled()
    const asked = await ask()
    if (how !== 'resolve') await asked.answer({ body: 'new' })
    gate.open()
    await settled()
    expect(early.got?.body).toBe('old')
    const current = how === 'resolve' ? 'settled' : 'new'
    expect([asked.got?.body, (await ask()).got?.body]).toEqual([current, current])
  })

  it.each(['here', 'there'] as const)(
    'is not kept if the settlement %s is all that happens',
    async (where) => {
      await (await there.route()()).answer({ body: 'old' })
      const gate = new Gate()
      here.store.next('begin', gate.delayReply)
      const ask = here.route()
      const early = await ask()
      await released(where === 'here' ? here : there)
      await settled()
      gate.open()
      await settled()
      expect(early.got?.body).toBe('old')
      const asked = await ask()
      expect(asked.isRunning).toBe(true)
      await asked.answer()
    },
  )

  it('is not kept after a gap, in which the message of a settlement may be lost', async () => {
    await (await there.route()()).answer({ body: 'old' })
    const gate = new Gate()
    here.store.next('begin', gate.delayReply)
    const ask = here.route()
    await ask()
    here.store.hooks.onGap()
    gate.open()
    await settled()
    here.store.take()
    await ask()
    expect(here.store.take()).toEqual(['begin'])
  })

  it.each(['here', 'there'] as const)(
    'is not kept if it is the reply to the end of an attempt: operator %s',
    async (where) => {
      const ask = here.route()
      const first = await ask()
      const gate = new Gate()
      here.store.next('finish', gate.delayReply)
      const answered = first.answer({ body: 'old' })
      await settled()
      await released(where === 'here' ? here : there)
      await settled()
      gate.open()
      await answered
      await settled()
      const asked = await ask()
      expect(asked.isRunning).toBe(true)
      await asked.answer({ body: 'new' })
      expect((await ask()).got?.body).toBe('new')
    },
  )

  it('does not outlive the settlement in the results that the store lacks', async () => {
    const ask = here.route()
    const first = await ask()
    const gate = new Gate()
    here.store.next('finish', refuse).next('finish', gate.delayReply)
    await first.answer({ body: 'old' })
    expect((await ask()).got?.body).toBe('old')
    let isReleased = false
    const releasing = released(here).then(() => {
      isReleased = true
    })
    await settled()
    // Until the store refuses the result, repeats may still get it.
    expect(isReleased).toBe(false)
    gate.open()
    await releasing
    const asked = await ask()
    expect(asked.isRunning).toBe(true)
    await asked.answer()
  })

  it('is kept if an operator settled nothing', async () => {
    await (await there.route()()).answer({ body: 'old' })
    const ask = here.route()
    await ask()
    here.store.take()
    expect((await ask()).got?.body).toBe('old')
    expect(here.store.take()).toEqual([])
  })
})

describe('a request that waits for another process', () => {
  let first: ScriptedRequest
  let waiting: ScriptedRequest

  async function begin(options = {}): Promise<void> {
    first = await there.route()()
    waiting = await here.route({ ...wait, ...options })()
    expect(waiting.got).toBeUndefined()
    here.store.take()
    here.events.take()
  }

  it('runs after the other process released the key', async () => {
    await begin()
    await first.answer({ status: 500 })
    await settled()
    expect(waiting.attempt).toMatchObject({ number: 2, isRecovery: false })
    await waiting.answer()
  })

  it('sends begin again after lost messages', async () => {
    await begin()
    here.store.hooks.onGap()
    await settled()
    expect(here.store.take()).toEqual(['begin, wait'])
    expect(waiting.got).toBeUndefined()
    await first.answer()
    await settled()
    expect(waiting.got?.status).toBe(200)
  })

  it('gets 409 when the store becomes unavailable, and does not run', async () => {
    await begin()
    here.store.next('begin', refuse)
    here.store.hooks.onLost()
    await settled()
    expect(waiting.got?.status).toBe(409)
    await first.answer()
  })

  it('runs when the lease of a dead process ends, without a message', async () => {
    await begin({ onBusy: { waitMs: 60_000 } })
    await first.end({ type: 'unanswered' })
    await clock.advance(30_004)
    expect(waiting.isRunning).toBe(false)
    await clock.advance(1)
    expect(waiting.attempt).toMatchObject({ number: 2, isRecovery: true })
    await waiting.answer()
  })

  it('gets 409 after waitMs', async () => {
    await begin({ onBusy: { waitMs: 2_000 } })
    await clock.advance(1_999)
    expect(waiting.got).toBeUndefined()
    await clock.advance(1)
    expect(waiting.got?.status).toBe(409)
    expect(waiting.field('retry-after')).toBe('1')
    await first.answer()
  })

  it('notices an attempt that ended before the wait began', async () => {
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

  it('notices an attempt that ended while a shared begin command was under way', async () => {
    first = await there.route()()
    const gate = new Gate()
    here.store.next('begin', gate.delayReply)
    const ask = here.route(wait)
    waiting = await ask()
    // The wake-up arrives before the reply.
    await first.answer({ body: 'made' })
    await settled()
    const late = await ask()
    gate.open()
    await settled()
    expect([waiting.got?.body, late.got?.body]).toEqual(['made', 'made'])
  })

  it('does not run while the process closes', async () => {
    await begin()
    const closed = here.stampede.close()
    await first.answer({ status: 500 })
    await clock.advance(2_100)
    await closed
    expect(waiting).toMatchObject({ isRunning: false, got: { status: 409 } })
  })
})

describe('the limit of 100 waiting requests for a key', () => {
  const waiting = Array.from({ length: 100 }, () => undefined)

  it('lets 100 requests wait, and refuses the others at once', async () => {
    const first = await there.route()()
    const all = await many(102, here.route(wait))
    expect(statuses(all)).toEqual([...waiting, 409, 409])
    await first.answer()
    await settled()
    expect(statuses(all)).toEqual([...waiting.map(() => 200), 409, 409])
  })

  it('counts from 0 again after waiters have left in any way', async () => {
    const ask = here.route(wait)
    for (const way of ['answer', 'deadline', 'lost']) {
      const first = await there.route()({ key: way })
      const all = await many(100, () => ask({ key: way }))
      expect(statuses(all)).toEqual(waiting)
      if (way === 'deadline') await clock.advance(10_000)
      if (way === 'lost') {
        here.store.next('begin', refuse)
        here.store.hooks.onLost()
        await settled()
      }
      if (way !== 'answer') {
        expect(statuses(all)).toEqual(waiting.map(() => 409))
        expect(statuses(await many(101, () => ask({ key: way })))).toEqual([...waiting, 409])
      }
      await first.answer()
      await settled()
    }
  })

  it('also limits waiters for a key that runs here', async () => {
    const ask = here.route(wait)
    const first = await ask()
    expect(statuses(await many(101, ask))).toEqual([...waiting, 409])
    await first.answer()
  })
})

describe('a process that loses the store after its client got the response', () => {
  /** The client of `there` has its 201, and the store does not know of it. */
  async function answeredWithout(options: BenchOptions) {
    const first = await there.route(options)()
    there.store.always = refuse
    await first.answer({ status: 201, body: 'order 1' })
    expect(first.got).toMatchObject({ status: 201, body: 'order 1' })
  }

  it('loses the key after its lease, and another process runs the handler as a recovery', async () => {
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

  it('keeps its response after its lease if onLeaseExpired is uncertain, and no handler runs', async () => {
    const options = { onLeaseExpired: 'uncertain' } as const
    await answeredWithout(options)
    await clock.advance(30_001)
    const second = await here.route(options)()
    expect(second).toMatchObject({ isRunning: false, got: { by: 'core', status: 409 } })
    there.store.heal()
    await clock.advance(10_000)
    expect((await here.route(options)()).got).toMatchObject({ status: 201, body: 'order 1' })
  })

  it('stores its response if the store is back within the lease', async () => {
    await answeredWithout({})
    await clock.advance(20_000)
    there.store.heal()
    await clock.advance(5_000)
    expect((await here.route()()).got).toMatchObject({ status: 201, body: 'order 1' })
  })
})
