import { afterEach, describe, expect, it } from 'vitest'
import { createHttpCache } from './http-cache.ts'
import {
  createStampede,
  memoryStore,
  type Stampede,
  type StampedeOptions,
  type StampedeStore,
} from './index.ts'
import { dataKey } from './ports/key.ts'
import { runtimeOf } from './stampede.ts'
import { ManualClock, ScriptedOrigin, settled, Transcript } from './testing/index.ts'
import { FaultyStore, refuse, sharedStores } from './testing/store-doubles.ts'

/** The internal key of getOrSet('k'). */
const KEY = dataKey('k')

let clock = new ManualClock()
let open: Stampede[] = []
afterEach(async () => {
  const closed = Promise.all(open.map((stampede) => stampede.close()))
  await clock.advance(60_000)
  await closed
  clock = new ManualClock()
  open = []
})

function setUp(options: StampedeOptions = {}) {
  const store = new FaultyStore()
  const stampede = createStampede({ store, clock, ...options })
  open.push(stampede)
  const origin = new ScriptedOrigin<unknown>()
  const get = (more = {}) => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000, ...more })
  return { store, stampede, origin, get }
}

describe('createStampede()', () => {
  it.each([
    [
      { sotre: 1 },
      'createStampede.sotre: received 1; there is no such option; did you mean store?',
    ],
    [
      memoryStore(),
      'createStampede: received an object (ProcessStore); pass the store among the options: { store }',
    ],
    [{ ttlMs: 5 }, 'createStampede.ttlMs: received 5; there is no such option'],
    [
      { store: {} },
      'createStampede.store: received an object (Object); pass memoryStore() or redis',
    ],
    [
      { store: { idempotency: {}, locks: {} } },
      'pass memoryStore() or redisStore(redis); a postgresStore(pool) belongs in idempotency: { store',
    ],
    [{ store: null }, 'createStampede.store: received null'],
    [{ store: 'redis://x' }, 'createStampede.store: received "redis://x"'],
    [{ failureBackoffMs: '1s' }, 'createStampede.failureBackoffMs: received "1s"'],
    [{ l1: 5 }, 'createStampede.l1: received 5; pass an object of options'],
    [
      { l1: { max: 5 } },
      'createStampede.l1.max: received 5; there is no such option; did you mean max',
    ],
    [
      { l1: { maxBytes: -1 } },
      'createStampede.l1.maxBytes: received -1; use a whole number of bytes',
    ],
    [
      { l1: { maxEntries: 1.5 } },
      'createStampede.l1.maxEntries: received 1.5; use a whole number of',
    ],
    [{ l1: { maxEntryBytes: '1mb' } }, 'createStampede.l1.maxEntryBytes: received "1mb"'],
    [{ clock: {} }, 'createStampede.clock: received an object (Object)'],
    [null, 'createStampede: received null; pass an object of options'],
  ])('rejects %j', (options, message) => {
    expect(() => createStampede(options as StampedeOptions)).toThrow(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining(message),
      }),
    )
  })

  it('rejects a store in use, whose first user would get no more messages', async () => {
    const store = memoryStore()
    const first = createStampede({ store })
    expect(() => createStampede({ store })).toThrow('createStampede.store')
    await first.close()
  })

  it.each([undefined, null, {}, 'stampede'])(
    'rejects a purge or cache with %o, which it did not return',
    (value) => {
      expect(() => runtimeOf(value)).toThrow('stampedeCache.stampede')
    },
  )
})

describe('stampede.getOrSet()', () => {
  it.each([
    ['', () => 1, { ttlMs: 5 }, 'getOrSet: key: received ""; use a non-empty string'],
    [5, () => 1, { ttlMs: 5 }, 'getOrSet: key: received 5'],
    ['k', 5, { ttlMs: 5 }, 'getOrSet: factory: received 5; use a function'],
    ['k', () => 1, undefined, 'getOrSet.ttlMs: received undefined; pass how long'],
    ['k', () => 1, {}, 'getOrSet.ttlMs: received undefined'],
    [
      'k',
      () => 1,
      { ttl: 5 },
      'getOrSet.ttl: received 5; there is no such option; did you mean ttlMs?',
    ],
    [
      'k',
      () => 1,
      { ttlMs: 0 },
      'getOrSet.ttlMs: received 0; use a whole number of milliseconds from 1',
    ],
    ['k', () => 1, { ttlMs: '5' }, 'getOrSet.ttlMs: received "5"'],
    ['k', () => 1, { ttlMs: 5, jitter: 1 }, 'getOrSet.jitter: received 1'],
    ['k', () => 1, { ttlMs: 5, leaseMs: 99 }, 'getOrSet.leaseMs: received 99'],
    ['k', () => 1, null, 'getOrSet: received null'],
  ] as Array<[unknown, unknown, unknown, string]>)(
    'rejects, and does not throw, for %o, %o, %j',
    async (key, factory, options, message) => {
      const { stampede } = setUp()
      const call = stampede.getOrSet as (...args: unknown[]) => Promise<unknown>
      const rejected = call(key, factory, options)
      await expect(rejected).rejects.toMatchObject({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining(message),
      })
    },
  )

  it('checks an options object again if it has changed', async () => {
    const { stampede } = setUp()
    const options = { ttlMs: 5 }
    await stampede.getOrSet('a', () => 1, options)
    options.ttlMs = -1
    await expect(stampede.getOrSet('b', () => 1, options)).rejects.toThrow('getOrSet.ttlMs')
  })
})

describe('stampede.purge()', () => {
  it.each([
    [undefined, undefined, 'purge: received undefined; pass exactly one target'],
    [{}, undefined, 'purge: received an object'],
    [{ key: 'k', tag: 't' }, undefined, 'purge: received an object'],
    [{ key: 'k', host: 'h' }, undefined, 'purge: received an object'],
    [{ tag: '' }, undefined, 'purge.tag: received ""'],
    [{ path: 'p' }, undefined, 'purge.path: received "p"; pass the path only, from its first /'],
    [{ path: '/p?a=1' }, undefined, 'purge.path: received "/p?a=1"; pass the path only'],
    [{ route: '/:a/(b)' }, undefined, 'purge.route: received "/:a/(b)"; use parts such as'],
    [{ all: 1 }, undefined, 'purge.all: received 1; use { all: true }'],
    [{ key: '' }, undefined, 'purge.key: received ""'],
    [{ key: 5 }, undefined, 'purge.key: received 5'],
    ['k', undefined, 'purge: received "k"; pass exactly one target: { tag: '],
    [null, undefined, 'purge: received null; pass exactly one target'],
    [
      {},
      undefined,
      'purge: received an object (Object); it has no target; pass exactly one target: { tag',
    ],
    [{ tag: undefined }, undefined, 'it has no target; pass exactly one target'],
    [{ tag: 'a', path: '/x' }, undefined, 'it has tag and path; pass exactly one target: { tag'],
    [{ host: 'x' }, undefined, "it has host; a host needs a path: { path: '/products/42', h"],
    [{ tag: 'a', host: 'x' }, undefined, 'it has tag and host; a host needs a path'],
    [['k'], undefined, 'purge: received an array of 1; pass an object'],
    [{ tag: ['a', 'b'] }, undefined, "{ tag: 'product:42' }; to purge several, use tags"],
    [{ path: '/p', host: 'http://h' }, undefined, 'purge.host: received "http://h"; pass the host'],
    [{ tag: 't', soft: true }, undefined, 'purge({ tag }, { soft: true })'],
    [{ route: '/:a{/:b}' }, undefined, 'purge it with the part and without'],
    [{ route: '/:a?' }, undefined, 'purge it with the part and without'],
    [{ route: /a/ }, undefined, "use a non-empty string: { route: '/products/:id' }"],
    [{ ky: 'k' }, undefined, 'purge.ky: received "k"; there is no such option; did you mean key?'],
    [{ key: 'k' }, { soft: 'yes' }, 'purge.soft: received "yes"; use true or false'],
    [{ key: 'k' }, { sotf: true }, 'purge.sotf: received true; there is no such option'],
    [{ key: 'k' }, true, 'purge: received true'],
  ])('rejects, and does not throw, for %j, %j', async (target, options, message) => {
    const { stampede, store } = setUp()
    const purge = stampede.purge as (...args: unknown[]) => Promise<void>
    const rejected = purge(target, options)
    await expect(rejected).rejects.toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
    await expect(purge(target, options)).rejects.toThrow(message)
    expect(store.calls).toEqual([])
  })

  it('rejects if the store cannot get the purge, which still applies in this process', async () => {
    const { stampede, store, origin, get } = setUp()
    const first = get({ ttlMs: 30_000 })
    await settled()
    origin.run(0).resolve('old')
    await first
    store.next('purge', refuse)
    await expect(stampede.purge({ key: 'k' })).rejects.toThrow('the store is away')
    expect(stampede.stats().l1.entries).toBe(0)
    await expect(stampede.purge({ key: 'k' })).resolves.toBeUndefined()
  })
})

describe('stampede.stats()', () => {
  it('counts events, and reports the work under way', async () => {
    const { stampede, origin, get, store } = setUp()
    const none = {
      hits: { l1: 0, l2: 0 },
      misses: 0,
      bypasses: {},
      stale: { revalidate: 0, 'soft-timeout': 0, 'origin-queue': 0, 'if-error': 0 },
      fills: {
        ...{ started: 0, committed: 0, fenced: 0, passed: 0, skipped: 0 },
        ...{ failed: 0, abandoned: 0 },
      },
      leases: {},
      collapsed: 0,
      failuresShared: 0,
      waits: { started: 0, timedOut: 0, totalMs: 0 },
      origin: { totalMs: 0, savedMs: 0 },
      unleased: { running: 0, queued: 0 },
      purges: { hard: 0, soft: 0 },
      store: {
        ...{ name: 'faulty', failures: 0, gaps: 0, available: true, confirmedAgoMs: 0 },
        ...{ bytesRaw: 0, bytesStored: 0 },
      },
      l1: { entries: 0, bytes: 0, maxBytes: 64 * 1024 * 1024 },
      active: { flights: 0, leases: 0 },
      idempotency: { running: 0, unstored: 0, outcomes: {} },
      ratios: { hitRatio: undefined, saved: undefined } as object,
      routes: {},
      notCached: {},
    }
    expect(stampede.stats()).toEqual(none)
    const first = get()
    await settled()
    expect(stampede.stats().active).toEqual({ flights: 1, leases: 1 })
    origin.run(0).resolve('v')
    await first
    await get()
    await settled()
    store.always = refuse
    const other = stampede.getOrSet('other', origin.factory, { ttlMs: 1_000 })
    await settled()
    origin.run(1).reject(new Error('down'))
    await expect(other).rejects.toThrow('down')
    const { l1, routes, ...rest } = stampede.stats()
    const { l1: _, routes: __, ...before } = none
    expect(rest).toEqual({
      ...before,
      hits: { l1: 1, l2: 0 },
      misses: 2,
      ratios: { hitRatio: 1 / 3, saved: 1 - 2 / 3 },
      fills: { ...none.fills, started: 2, committed: 1, failed: 1 },
      leases: { absent: 1 },
      store: { ...none.store, failures: 1 },
    })
    expect(l1.entries).toBe(1)
    expect(routes).toMatchObject({ '(data)': { hits: 1, misses: 2, runs: 2 } })
    expect(l1.bytes).toBeGreaterThan(0)
  })
})

describe('a Stampede of another copy of this package', () => {
  it('is refused with an error that says so', async () => {
    // A module of another URL is another copy, as with two installed versions.
    const copy: string = './stampede.ts?copy'
    const other: typeof import('./stampede.ts') = await import(copy)
    const stampede = other.createStampede()
    open.push(stampede)
    expect(() => createHttpCache({ stampede })).toThrow(
      /^stampedeCache\.stampede: received a Stampede of another copy of @stampede\/core; install one/,
    )
    expect(Object.keys(stampede)).toEqual(Object.keys(createStampede()))
  })
})

describe('stampede.on()', () => {
  it.each([
    [
      'purged',
      () => {},
      'on: received "purged"; there is no such event; did you mean entry.purged?',
    ],
    [
      'entry.hits',
      () => {},
      'on: received "entry.hits"; there is no such event; did you mean entry.hit?',
    ],
    [
      'xyzzy',
      () => {},
      'on: received "xyzzy"; there is no such event; known events: entry.hit, entry.',
    ],
    [undefined, () => {}, 'on: received undefined; there is no such event; known events'],
    ['*', undefined, 'on: listener: received undefined; use a function'],
  ])('refuses %j with %j', (type, listener, message) => {
    const { stampede } = setUp()
    const on = stampede.on as (...args: unknown[]) => void
    expect(() => on(type, listener)).toThrow(message)
  })

  it('reports background failures of the store', () => {
    const { stampede, store } = setUp()
    const seen: unknown[] = []
    stampede.on('store.failed', ({ operation, error }) => seen.push([operation, error]))
    const error = new Error('refused')
    store.hooks.onError('connect', error)
    expect(seen).toEqual([['connect', error]])
    expect(stampede.stats().store.failures).toBe(1)
  })
})

describe('stampede.close()', () => {
  it('makes later calls reject', async () => {
    const { stampede, get } = setUp()
    await stampede.close()
    await expect(get()).rejects.toMatchObject({ code: 'ERR_STAMPEDE_CLOSED' })
    await expect(stampede.purge({ key: 'k' })).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_CLOSED',
    })
    expect(stampede.stats().l1.entries).toBe(0)
  })

  it('releases the leases of fills that do not end, and waitMs ends the waits for them', async () => {
    const { stampede, get, origin, store } = setUp()
    const waitMs = 5_000
    const leader = get({ originTimeoutMs: 60_000 })
    const follower = get({ waitMs, originTimeoutMs: 60_000 })
    await settled()
    const closed = stampede.close()
    await clock.advance(2_010)
    await closed
    expect(store.calls.at(-1)).toBe(`fail ${KEY}`)
    expect(origin.calls).toBe(1)
    await clock.advance(waitMs)
    expect(origin.calls).toBe(2)
    origin.run(1).resolve('own')
    expect(await follower).toBe('own')
    origin.run(0).resolve('late')
    expect(await leader).toBe('late')
  })

  /** The store after close(): it still works, it has closed, or it fails. */
  it.each([
    ['works', () => new FaultyStore(), {}, () => {}],
    ['is the memory store', memoryStore, {}, () => {}],
    ['fails', () => new FaultyStore(), {}, (store: FaultyStore) => (store.always = refuse)],
  ] as const)(
    'lets one run serve all waiters if the fill outlasts close() and the store then %s',
    async (...row) => {
      const [, createStore, options, after] = row
      const store = createStore()
      const { stampede, get, origin } = setUp({ store, ...options })
      const more = { originTimeoutMs: 60_000, waitMs: 60_000 }
      const asked = Array.from({ length: 200 }, () => get(more))
      await settled()
      const closed = stampede.close()
      await clock.advance(2_010)
      await closed
      after(store as FaultyStore)
      await clock.advance(3_000)
      await origin.run(0).resolve('v')
      expect(origin.calls).toBe(1)
      expect(new Set(await Promise.all(asked))).toEqual(new Set(['v']))
    },
  )

  it('lets a wait for another process end in one run, if that process outlasts close()', async () => {
    const stores = sharedStores()
    const [a, b] = [stores.a, stores.b].map((store) => setUp({ store }))
    const more = { originTimeoutMs: 60_000, waitMs: 60_000 }
    const first = a?.get(more)
    await settled()
    const asked = Array.from({ length: 20 }, () => b?.get(more))
    await settled()
    const closed = b?.stampede.close()
    await clock.advance(2_010)
    await closed
    stores.b.always = refuse
    stores.b.hooks.onLost()
    await settled()
    expect(b?.origin.calls).toBe(1)
    b?.origin.run(0).resolve('own')
    expect(new Set(await Promise.all(asked))).toEqual(new Set(['own']))
    a?.origin.run(0).resolve('v')
    expect(await first).toBe('v')
  })

  it('leaves no timer, and renews no lease, although a fill never ends', async () => {
    const { stampede, get, store } = setUp()
    void get({ originTimeoutMs: 60_000 }).catch(() => {})
    await settled()
    const closed = stampede.close()
    await clock.advance(2_010)
    await closed
    store.calls.length = 0
    await clock.advance(30_000)
    expect(store.calls).toEqual([])
    expect(stampede.stats().active.leases).toBe(0)
  })

  it('also waits for a fill that a purge refused, because its caller waits for it', async () => {
    const { stampede, get, origin } = setUp()
    const leader = get()
    const follower = get()
    await settled()
    await stampede.purge({ key: 'k' })
    const closed = stampede.close()
    await clock.advance(2_010)
    await closed
    origin.run(0).resolve('late')
    expect(await leader).toBe('late')
    await settled()
    for (const run of origin.runs) run.resolve('own')
    expect(await follower).toBe('own')
  })

  it('wakes no waiter of other processes', async () => {
    const stores = sharedStores()
    const make = (store: StampedeStore) => {
      const stampede = createStampede({ store, clock })
      open.push(stampede)
      return stampede
    }
    const [a, b] = [make(stores.a), make(stores.b)]
    const transcript = new Transcript().record(b)
    const origin = new ScriptedOrigin<unknown>()
    const options = { ttlMs: 1_000, originTimeoutMs: 60_000 }
    void a.getOrSet('k', origin.factory, options).catch(() => {})
    await settled()
    const waiting = b.getOrSet('k', () => 'mine', { ttlMs: 1_000 })
    await settled()
    const closed = a.close()
    await clock.advance(2_010)
    await closed
    expect(await waiting).toBe('mine')
    await settled()
    expect(transcript.take()).toEqual([
      'wait.started',
      'wait.ended by wake-up',
      'lease.granted',
      'fill.started',
      'fill.committed',
    ])
  })
})
