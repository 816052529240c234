// The journey of a request with a key, over an exchange without a server.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { IdempotencyBench } from '../testing/idempotency-bench.ts'
import { ManualClock, type ScriptedRequest, settled } from '../testing/index.ts'
import { FaultyStore, refuse, sharedStores } from '../testing/store-doubles.ts'

let bench: IdempotencyBench

beforeEach(() => {
  bench = new IdempotencyBench()
})
afterEach(() => bench.end())

describe('a new idempotency key', () => {
  it('belongs to its scope, and the scopes 7 and "7" are equal', async () => {
    const ask = bench.route()
    for (const user of ['user-1', 'user-2', 7]) {
      const each = await ask({ user })
      expect(each.isRunning).toBe(true)
      await each.answer()
    }
    expect((await ask({ user: '7' })).field('idempotency-replayed')).toBe('true')
  })
})

describe('the outcome event of a request', () => {
  const outcomes = () => bench.events.take().filter((line) => line.startsWith('answered '))

  it('reports the outcomes in-progress, key-reused and replayed', async () => {
    const ask = bench.route()
    const first = await ask()
    const busy = await ask()
    const other = await ask({ target: '/payments' })
    await first.answer()
    bench.rt.attempts.forgetDone()
    await ask()
    expect([busy.got?.status, other.got?.status]).toEqual([409, 422])
    expect(outcomes()).toEqual([
      'answered started',
      'answered in-progress',
      'answered key-reused',
      'answered replayed',
    ])
  })

  it('reports a missing, an invalid, a duplicate key, and a body that is too large', async () => {
    const ask = bench.route({ maxBodyBytes: 3 })
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

  it('reports a wait, an uncertain attempt, and a response that was not retained', async () => {
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

  it('reports recovered, unavailable and unprotected attempts, with the key and its hash', async () => {
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

describe('a request with a key while the store is unavailable', () => {
  it('runs if onStoreError is proceed, with an attempt that stores nothing', async () => {
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

  it('does not run while another attempt is known to be running', async () => {
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
})

describe('onLeaseExpired after a dead attempt', () => {
  /** The second request under this `onLeaseExpired`. */
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

  it('prevents every further run if it is uncertain', async () => {
    const { request, events } = await second({ onLeaseExpired: 'uncertain' })
    expect(request.problem).toMatchObject({ code: 'idempotency-outcome-uncertain', status: 409 })
    expect(events).toEqual(['answered uncertain'])
  })

  it('is part of the work of the handler if it is takeover: a recovery checks what was done', async () => {
    const { request, events } = await second({})
    expect(request.attempt).toMatchObject({ number: 2, isRecovery: true })
    expect(events).toEqual(['answered recovered'])
    await request.answer({ status: 201, body: 'the charge of the first attempt' })
    expect((await bench.route()()).got?.body).toBe('the charge of the first attempt')
  })
})

it('two Stampedes of one process cannot share a store by accident', () => {
  const store = new FaultyStore()
  new IdempotencyBench({ store })
  expect(() => new IdempotencyBench({ store })).toThrow('a store that is already in use')
})

/** A thenable that settles later and whose then() returns undefined, which `await` accepts. */
function thenable(how: 'resolve' | 'reject'): Promise<string> {
  const then = (resolve: (value: string) => void, reject: (error: Error) => void): void => {
    const settle = () => (how === 'resolve' ? resolve('value') : reject(new Error('refused')))
    queueMicrotask(settle)
  }
  return { then } as unknown as Promise<string>
}

describe('a callback option that returns a thenable', () => {
  it.each(['scope', 'fingerprint'])('is awaited: %s', async (option) => {
    const request = await bench.route({ [option]: () => thenable('resolve') })()
    expect(request.isRunning).toBe(true)
    await request.answer({ body: 'made' })
    expect((await bench.route({ [option]: () => 'value' })()).got?.body).toBe('made')
  })

  it.each(['scope', 'fingerprint'])('fails the request with its error: %s', async (option) => {
    const request = await bench.route({ [option]: () => thenable('reject') })()
    expect(request.error).toMatchObject({ message: 'refused' })
  })
})
