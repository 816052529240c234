// A store without a time budget of its own that never replies: each call of the user still ends.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Attempt } from '../idempotency/attempt.ts'
import { createStampede, runtimeOf } from '../stampede.ts'
import { settled } from '../testing/index.ts'
import { resolve } from '../testing/resolve.ts'
import {
  begin,
  begun,
  clock,
  create,
  end,
  KEY,
  outcome,
  PASS,
  POLICY,
  scripted,
} from '../testing/resolve-bench.ts'
import { FaultyStore, type Operation, sharedStores } from '../testing/store-doubles.ts'
import { withTimeBudget } from './time-budget.ts'

const never = () => new Promise<never>(() => {})
const UNAVAILABLE = 'ERR_STAMPEDE_STORE_UNAVAILABLE'
const BUDGET_MS = 5_000

let store: FaultyStore
beforeEach(() => {
  begin()
  store = new FaultyStore()
  store.hasTimeBudget = false
  store.idempotency.always = undefined
})
afterEach(async () => {
  store.heal()
  store.idempotency.heal()
  await end()
})

const silent = (operation: Operation) => {
  for (let i = 0; i < 20; i++) store.next(operation, never)
}

/** Holds back the reply until the test calls `deliver`. The command is executed only then. */
function lateReply() {
  let deliver = () => {}
  const arrival = new Promise<void>((resolve) => {
    deliver = resolve
  })
  return { deliver, late: (work: () => unknown) => arrival.then(work) }
}

describe('a lease that a store grants after its time budget', () => {
  it('ends when the late reply arrives, so another process need not wait: lookup', async () => {
    const stores = sharedStores()
    stores.a.hasTimeBudget = false
    const [a, b] = [create(stores.a), create(stores.b)]
    const { deliver, late } = lateReply()
    stores.a.next('lookup', late)
    const options = { ttlMs: 1_000, leaseMs: 60_000 }
    const first = outcome(a.getOrSet('k', () => 'unleased', options))
    await clock.advance(10_000)
    expect(first.now).toBe('unleased')
    deliver()
    await settled()
    const second = await begun(b.getOrSet('k', () => 'leased', options))
    expect(second.now).toBe('leased')
  })

  it('ends when the late reply arrives, so a repeat runs the work: begin', async () => {
    const stampede = create(store)
    const { deliver, late } = lateReply()
    store.idempotency.next('begin', late)
    const first = outcome(stampede.idempotent('job', () => 1, { leaseMs: 60_000 }))
    await clock.advance(10_000)
    expect(first.now).toBe(UNAVAILABLE)
    deliver()
    await settled()
    const recoveries: boolean[] = []
    const work = ({ isRecovery }: Attempt) => recoveries.push(isRecovery)
    await stampede.idempotent('job', work, { leaseMs: 60_000 })
    expect(recoveries).toEqual([false])
  })
})

describe('a store that never replies to an operation', () => {
  it('lets getOrSet run the factory once for all callers: lookup', async () => {
    const stampede = create(store)
    silent('lookup')
    let runs = 0
    const get = () => outcome(stampede.getOrSet('k', () => `run ${++runs}`, { ttlMs: 1_000 }))
    const all = [get(), get()]
    await clock.advance(BUDGET_MS - 1)
    expect(all.map(({ now }) => now)).toEqual(['pending', 'pending'])
    await clock.advance(1)
    expect(all.map(({ now }) => now)).toEqual(['run 1', 'run 1'])
    expect(stampede.stats().store.failures).toBe(1)
  })

  it('lets get() miss, and an unparsable value be filled: lookup', async () => {
    const stampede = create(store)
    silent('lookup')
    const found = outcome(stampede.cache('c', { ttlMs: 1_000 }).get('k'))
    await clock.advance(BUDGET_MS)
    expect(found.now).toBeUndefined()
  })

  it('keeps the value in memory, for the waiters too: commit', async () => {
    const stampede = create(store)
    silent('commit')
    let finish = (_value: string) => {}
    const work = () => new Promise<string>((done) => (finish = done))
    const all = [1, 2].map(() => outcome(stampede.getOrSet('k', work, { ttlMs: 1_000 })))
    await settled()
    finish('value')
    await settled()
    expect(all.map(({ now }) => now)).toEqual(['value', 'pending'])
    await clock.advance(2 * BUDGET_MS)
    expect(all[1]?.now).toBe('value')
  })

  it('lets waiters run the handler themselves: pass', async () => {
    const stampede = create(store)
    silent('pass')
    const { caller, origin } = scripted()
    const all = [1, 2, 3, 4].map(() =>
      outcome(Promise.resolve(resolve(runtimeOf(stampede), KEY, POLICY, caller))),
    )
    await settled()
    // The store does not remember the first response, but its flight does.
    for (const run of [0, 1]) {
      origin.run(run).resolve(PASS)
      await clock.advance(BUDGET_MS)
    }
    expect(all.map(({ now }) => (now as { type: string }).type)).toEqual([
      ...['led', 'led'],
      ...['pass', 'pass'],
    ])
  })

  it('lets the callers share the failure of the factory: fail', async () => {
    const stampede = create(store)
    silent('fail')
    const work = () => Promise.reject(new Error('down'))
    const all = [1, 2].map(() => outcome(stampede.getOrSet('k', work, { ttlMs: 1_000 })))
    await clock.advance(BUDGET_MS)
    expect(all.map(({ now }) => now)).toEqual(['down', 'down'])
  })

  it('lets a long run end: renew', async () => {
    const stampede = create(store)
    silent('renew')
    let finish = (_value: string) => {}
    const work = () => new Promise<string>((done) => (finish = done))
    const value = outcome(stampede.getOrSet('k', work, { ttlMs: 1_000, leaseMs: 1_000 }))
    await clock.advance(4_000)
    finish('value')
    await settled()
    expect(value.now).toBe('value')
  })

  it.each([
    ['purge', { key: 'k' }],
    ['mark', { tag: 't' }],
    ['mark', { path: '/a' }],
    ['mark', { route: '/:id' }],
    ['mark', { all: true }],
  ] as const)('rejects the purge: %s, %j', async (operation, target) => {
    const stampede = create(store)
    silent(operation)
    for (const soft of [false, true]) {
      const purged = outcome(stampede.purge(target, { soft }))
      await clock.advance(BUDGET_MS - 1)
      expect(purged.now).toBe('pending')
      await clock.advance(1)
      expect(purged.now).toBe(UNAVAILABLE)
    }
  })

  it.each([
    ['purge', 'faulty purge: no reply within 5000 ms'],
    [
      'lookup',
      'faulty set: the old value was purged, but the new one was not stored; set it again',
    ],
    [
      'commit',
      'faulty set: the old value was purged, but the new one was not stored; set it again',
    ],
  ] as const)('rejects set(): %s', async (operation, message) => {
    const stampede = create(store)
    silent(operation)
    const failed = stampede
      .cache('c', { ttlMs: 1_000 })
      .set('k', 1)
      .catch((error) => error)
    await clock.advance(2 * BUDGET_MS)
    expect(await failed).toMatchObject({ code: UNAVAILABLE, message })
  })

  it('names the operation and the time in the error', async () => {
    const stampede = create(store)
    silent('mark')
    const purged = stampede.purge({ tag: 't' }).catch(({ message }) => message)
    await clock.advance(BUDGET_MS)
    expect(await purged).toBe('faulty mark: no reply within 5000 ms')
  })

  it('lets every call and close() end: all operations', async () => {
    const stampede = create(store)
    store.always = never
    store.idempotency.next('close', (work) => work()).always = never
    const cache = stampede.cache('c', { ttlMs: 1_000 })
    const calls = {
      getOrSet: stampede.getOrSet('k', () => 1, { ttlMs: 1_000 }),
      get: cache.get('k'),
      set: cache.set('k', 1),
      delete: cache.delete('k'),
      purge: stampede.purge({ key: 'k' }),
      idempotent: stampede.idempotent('job', () => 1),
      inspect: stampede.idempotency.inspect('job'),
      release: stampede.idempotency.release('job'),
    }
    const names = Object.keys(calls)
    const all = Object.values(calls).map((call) => outcome(call as Promise<unknown>))
    await clock.advance(40_000)
    const closed = outcome(stampede.close())
    await clock.advance(40_000)
    const left = names.filter((_, i) => all[i]?.now === 'pending')
    expect([left, closed.now]).toEqual([[], undefined])
  })

  it.each(['begin', 'finish', 'keepStep', 'renew'] as const)(
    'lets a job end: %s',
    async (operation) => {
      const stampede = create(store)
      for (let i = 0; i < 20; i++) store.idempotency.next(operation, never)
      const job = outcome(
        stampede.idempotent('job', async (attempt) => attempt.step('charge', () => 'charged')),
      )
      await clock.advance(30_000)
      expect(job.now).toBe(operation === 'begin' ? UNAVAILABLE : 'charged')
      store.idempotency.heal()
      await clock.advance(30_000)
    },
  )

  it('lets close() reject: close', async () => {
    store.close = never
    const stampede = createStampede({ store, clock })
    const closed = outcome(stampede.close())
    await clock.advance(BUDGET_MS)
    expect(closed.now).toBe(UNAVAILABLE)
  })

  it('is not bounded if it has a time budget of its own', async () => {
    store.hasTimeBudget = true
    const stampede = create(store)
    silent('mark')
    const purged = outcome(stampede.purge({ tag: 't' }))
    await clock.advance(60_000)
    expect(purged.now).toBe('pending')
  })
})

it('a frozen store without a time budget can be used', async () => {
  const own = Object.freeze({ name: 'own', ask: async () => 'reply' })
  await expect(withTimeBudget(own, clock).ask()).resolves.toBe('reply')
})

describe('a store whose operation throws instead of returning a promise', () => {
  const broken = (..._args: unknown[]): never => {
    throw new Error('no connection')
  }

  it.each(['lookup', 'commit', 'pass', 'fail', 'renew', 'purge', 'mark', 'close'] as const)(
    'rejects, because callers in the background handle only rejections: %s',
    async (operation) => {
      const bounded = withTimeBudget(Object.assign(store, { [operation]: broken }), clock)
      const call = bounded[operation] as () => Promise<unknown>
      await expect(call()).rejects.toThrow('no connection')
    },
  )

  it('does not end the process when the end of an attempt is sent again: finish', async () => {
    const { idempotency } = store
    const finish = idempotency.finish.bind(idempotency)
    const calls = [broken, broken, finish]
    idempotency.finish = (...args) => (calls.shift() ?? finish)(...args)
    const stampede = create(store)
    expect(await stampede.idempotent('job', () => 7)).toBe(7)
    await clock.advance(60_000)
    await settled()
    expect(calls).toEqual([])
  })

  it('throws from attach, so createStampede throws', () => {
    expect(() => create(Object.assign(store, { attach: broken }))).toThrow('no connection')
  })
})
