// The journey of a request with a key, over an exchange without a server.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { IdempotencyBench, NOTHING_LEFT } from '../testing/idempotency-bench.ts'
import { ManualClock, type ScriptedRequest, settled } from '../testing/index.ts'
import { FaultyStore, refuse, sharedStores } from '../testing/store-doubles.ts'

let bench: IdempotencyBench

beforeEach(() => {
  bench = new IdempotencyBench()
})
afterEach(async () => {
  await bench.clock.advance(60_000)
  expect(bench.left).toEqual(NOTHING_LEFT)
  expect(bench.clock.timers).toBe(0)
  await bench.stampede.close()
})

describe('a new key', () => {
  it('runs the handler, with an attempt, and the client gets its answer', async () => {
    const ask = bench.route()
    const first = await ask({ body: { a: 1 } })
    expect(first.isRunning).toBe(true)
    expect(first.attempt).toMatchObject({ number: 1, isRecovery: false })
    expect(first.attempt.fence).toBeGreaterThan(0n)
    await first.answer({ status: 201, headers: { location: '/orders/7' }, body: 'made' })
    expect(first.got).toEqual({
      by: 'handler',
      status: 201,
      headers: [['location', '/orders/7']],
      body: 'made',
    })
    expect(bench.events.take()).toEqual(['answered started', 'finished completed, finished'])
    expect(bench.store.take()).toEqual(['begin', 'finish completed'])
  })

  it('again is answered with the same, marked, and without asking anybody', async () => {
    const ask = bench.route()
    const first = await ask({ body: { a: 1, b: 2 } })
    await first.answer({ status: 201, headers: { location: '/orders/7' }, body: 'made' })
    bench.events.take()
    bench.store.take()
    const again = await ask({ body: { b: 2, a: 1 } })
    expect(again.got).toEqual({
      by: 'core',
      status: 201,
      headers: [
        ['location', '/orders/7'],
        ['idempotency-replayed', 'true'],
      ],
      body: 'made',
    })
    expect(again.given).toBeUndefined()
    expect(bench.events.take()).toEqual(['answered replayed-l1'])
    expect(bench.store.take()).toEqual([])
  })

  it('is another one in another scope, and the same whether the scope is 7 or "7"', async () => {
    const ask = bench.route()
    for (const user of ['user-1', 'user-2', 7]) {
      const each = await ask({ user })
      expect(each.isRunning).toBe(true)
      await each.answer()
    }
    expect((await ask({ user: '7' })).field('idempotency-replayed')).toBe('true')
  })

  it('is forgotten after retentionMs', async () => {
    const ask = bench.route({ retentionMs: 1_000 })
    await (await ask()).answer()
    await bench.clock.advance(1_000)
    const later = await ask()
    expect(later.attempt.number).toBe(1)
    await later.answer()
  })
})

describe('every request emits one event with what became of it', () => {
  const outcomes = () => bench.events.take().filter((line) => line.startsWith('answered '))

  it('in progress, reused, replayed', async () => {
    const ask = bench.route()
    const first = await ask()
    const busy = await ask()
    const other = await ask({ target: '/payments' })
    await first.answer()
    bench.rt.replays.clear()
    await ask()
    expect([busy.got?.status, other.got?.status]).toEqual([409, 422])
    expect(outcomes()).toEqual([
      'answered started',
      'answered in-progress',
      'answered key-reused',
      'answered replayed',
    ])
  })

  it('missing, invalid, duplicate, too large', async () => {
    const ask = bench.route({ maxRequestBytes: 3 })
    await ask({ key: [] })
    await ask({ key: '"not closed' })
    await ask({ key: ['a', 'a'] })
    await ask({ body: 'long' })
    expect(outcomes()).toEqual([
      'answered key-missing',
      'answered key-invalid',
      'answered key-invalid',
      'answered too-large',
    ])
    expect(bench.store.take()).toEqual([])
  })

  it('waited for, uncertain, not retained', async () => {
    const ask = bench.route({ onBusy: 'wait' })
    const first = await ask()
    const waiting = await ask()
    expect(waiting.got).toBeUndefined()
    await first.answer({ body: 'made' })
    await settled()
    expect(waiting.got).toMatchObject({ by: 'core', body: 'made' })
    const unknown = await ask({ key: 'k-2' })
    unknown.attempt.uncertain()
    await unknown.answer()
    await ask({ key: 'k-2' })
    const large = await ask({ key: 'k-3' })
    await large.end({ type: 'not-retained', head: { status: 200, headers: [] } })
    await ask({ key: 'k-3' })
    expect(outcomes()).toEqual([
      'answered started',
      'answered replayed-after-wait',
      'answered started',
      'answered uncertain',
      'answered started',
      'answered not-retained',
    ])
  })

  it('recovered, unavailable, unprotected; with the key of the client and its hash', async () => {
    const keys: string[] = []
    const hashes: string[] = []
    bench.stampede.on('idempotency.answered', ({ key, internalKey }) => {
      keys.push(key)
      hashes.push(internalKey)
    })
    const ask = bench.route()
    const died = await ask()
    await died.end({ type: 'unanswered' })
    await bench.clock.advance(30_000)
    const recovered = await ask()
    expect(recovered.attempt).toMatchObject({ number: 2, isRecovery: true })
    await recovered.answer()
    bench.store.next('begin', refuse).next('begin', refuse)
    await ask({ key: 'k-2' })
    await bench.route({ onStoreError: 'proceed' })({ key: 'k-3' })
    expect(outcomes()).toEqual([
      'answered started',
      'answered recovered',
      'answered unavailable',
      'answered unprotected',
    ])
    expect(keys.slice(2)).toEqual(['k-2', 'k-3'])
    for (const hash of hashes) expect(hash).toMatch(/^[\w-]{43}$/)
  })
})

describe('without the store', () => {
  it('a request is refused by default, and may come again', async () => {
    bench.store.next('begin', refuse)
    const ask = bench.route()
    const first = await ask()
    expect(first.got).toMatchObject({ by: 'core', status: 503 })
    expect(first.field('retry-after')).toBe('1')
    expect(bench.events.take()).toEqual(['store.failed begin', 'answered unavailable'])
    const again = await ask()
    await again.answer()
  })

  it('proceeds if it is told to, with an attempt that remembers nothing', async () => {
    bench.store.always = refuse
    const ask = bench.route({ onStoreError: 'proceed' })
    const first = await ask()
    expect(first.got).toMatchObject({
      by: 'bypass',
      headers: [['idempotency-status', 'unprotected']],
    })
    expect(first.attempt).toMatchObject({ number: 1, isRecovery: false, fence: undefined })
    expect(first.attempt.childKey('charge')).toMatch(/^[\w-]{43}$/)
    expect(await first.attempt.step('charge', () => ({ id: 1 }))).toEqual({ id: 1 })
    bench.store.heal()
    expect(bench.store.take()).toEqual(['begin'])
  })

  it('does not proceed beside an attempt that is known to be at work', async () => {
    const clock = new ManualClock()
    const stores = sharedStores()
    const other = new IdempotencyBench({ clock, store: stores.a })
    const here = new IdempotencyBench({ clock, store: stores.b })
    const first = await other.route()()
    const ask = here.route({ onStoreError: 'proceed', onBusy: 'wait' })
    const waiting = await ask()
    here.store.always = refuse
    here.store.hooks.onLost()
    await settled()
    expect(waiting.got).toMatchObject({ by: 'core', status: 409 })
    expect(here.events.take()).toEqual(['store.failed begin', 'answered in-progress'])
    here.store.heal()
    await first.answer()
    await clock.advance(90_000)
    expect(clock.timers).toBe(0)
  })

  it('and once closed, a request is refused too', async () => {
    const ask = bench.route()
    await bench.stampede.close()
    expect((await ask()).got?.status).toBe(503)
  })
})

describe('after an attempt that died', () => {
  /** What `onLeaseExpired` makes of the second request. */
  async function second(onLeaseExpired: Parameters<typeof bench.route>[0]): Promise<{
    request: ScriptedRequest
    events: string[]
  }> {
    const ask = bench.route(onLeaseExpired)
    await (await ask()).end({ type: 'unanswered' })
    await bench.clock.advance(30_000)
    bench.events.take()
    const request = await ask()
    return { request, events: bench.events.take() }
  }

  it("'uncertain' keeps everybody from running it", async () => {
    const { request, events } = await second({ onLeaseExpired: 'uncertain' })
    expect(request.problem).toMatchObject({ code: 'idempotency-outcome-uncertain', status: 409 })
    expect(events).toEqual(['answered uncertain'])
  })

  it('a function is given the attempt and the request, and may say: run it', async () => {
    const asked: unknown[] = []
    const { request, events } = await second({
      onLeaseExpired: async (attempt, native) => {
        asked.push(attempt.number, attempt.isRecovery, native)
        return 'takeover' as const
      },
    })
    expect(asked).toEqual([2, true, request])
    expect(events).toEqual(['answered recovered'])
    await request.answer()
  })

  it('or: nobody knows', async () => {
    const { request, events } = await second({ onLeaseExpired: () => 'uncertain' })
    expect(request.given).toBeUndefined()
    expect(request.problem.code).toBe('idempotency-outcome-uncertain')
    expect(events).toEqual(['finished uncertain, finished', 'answered uncertain'])
  })

  it('or: it was done, and this is the answer', async () => {
    const body = { charge: 7 }
    const { request, events } = await second({ onLeaseExpired: () => ({ status: 201, body }) })
    expect(request.got).toMatchObject({ by: 'core', status: 201, body: '{"charge":7}' })
    expect(request.field('content-type')).toBe('application/json; charset=utf-8')
    expect(events).toEqual(['finished completed, finished', 'answered replayed'])
    expect((await bench.route()()).got?.body).toBe('{"charge":7}')
  })

  it.each([
    ['throws', () => Promise.reject(new Error('the gateway is away')), 'the gateway is away'],
    ['says nothing', () => undefined as never, /onLeaseExpired.*undefined/],
    ['misspells it', () => 'take-over' as never, /onLeaseExpired.*"take-over"/],
    ['gives a bad answer', () => ({ status: 99 }), /onLeaseExpired\.status.*99/],
    ['misspells the answer', () => ({ state: 201 }) as never, /onLeaseExpired\.state.*status/],
  ])('one that %s runs nothing, and the next request asks again', async (_, answer, message) => {
    const { request } = await second({ onLeaseExpired: answer })
    expect(request.given).toBeUndefined()
    expect(request.got).toBeUndefined()
    expect((request.error as Error).message).toMatch(message)
    expect(bench.left).toEqual(NOTHING_LEFT)
    expect((await bench.route()()).got?.status).toBe(409)
    await bench.clock.advance(30_000)
    const next = await bench.route()()
    expect(next.attempt).toMatchObject({ number: 3, isRecovery: true })
    await next.answer()
  })
})

it('two Stampedes of one process do not share a store by accident', () => {
  const store = new FaultyStore()
  new IdempotencyBench({ store })
  expect(() => new IdempotencyBench({ store })).toThrow('a store that is already in use')
})
