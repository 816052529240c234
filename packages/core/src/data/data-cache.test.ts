import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { DataCache, Stampede } from '../index.ts'
import type { Fault } from '../testing/idempotency-doubles.ts'
import { settled } from '../testing/index.ts'
import { begin, clock, create, end } from '../testing/resolve-bench.ts'
import { FaultyStore, Gate, refuse, sharedStores } from '../testing/store-doubles.ts'
import type { Serializer } from './value.ts'

type DataCacheOptions = Parameters<Stampede['cache']>[1]

beforeEach(begin)
afterEach(end)

function setUp() {
  const store = new FaultyStore()
  const stampede = create(store)
  return { store, stampede, rates: stampede.cache('rates', { ttlMs: 1_000 }) }
}

/** The same cache in two processes. */
function two(options: Partial<DataCacheOptions> = {}) {
  const stores = sharedStores()
  const [a, b] = [stores.a, stores.b].map((store) =>
    create(store).cache('n', { ttlMs: 1_000, ...options }),
  ) as [DataCache, DataCache]
  return { a, b, stores }
}

const optionError = (message: string) =>
  expect.objectContaining({
    code: 'ERR_STAMPEDE_OPTION',
    message: expect.stringContaining(message),
  })

describe('a data cache', () => {
  it('keeps its keys separate from other caches, under names that a purge can use', async () => {
    const { stampede, rates } = setUp()
    const other = stampede.cache('other', { ttlMs: 1_000 })
    expect(await rates.getOrSet('eur', () => 1)).toBe(1)
    expect(await other.getOrSet('eur', () => 2)).toBe(2)
    expect(await stampede.getOrSet('rates:eur', () => 3, { ttlMs: 1 })).toBe(1)
    await stampede.purge({ key: 'rates:eur' })
    expect([await rates.get('eur'), await other.get('eur')]).toEqual([undefined, 2])
  })

  it('checks its defaults at creation, and the options of each call', async () => {
    const { stampede, rates } = setUp()
    expect(() => stampede.cache('a:b', { ttlMs: 1 })).toThrow(optionError('name: received "a:b"'))
    expect(() => stampede.cache('a', {} as DataCacheOptions)).toThrow(optionError('getOrSet.ttlMs'))
    const mistyped = { ttlMs: 1, ttl: 2 } as DataCacheOptions
    expect(() => stampede.cache('a', mistyped)).toThrow(optionError('did you mean ttlMs?'))
    const half = { ttlMs: 1, serializer: { serialize: String } } as unknown as DataCacheOptions
    expect(() => stampede.cache('a', half)).toThrow(optionError('cache.serializer'))
    await expect(rates.getOrSet('k', () => 1, { ttlMs: -1 })).rejects.toThrow(optionError('ttlMs'))
    await expect(rates.getMany('text' as never)).rejects.toThrow(optionError('keys'))
    const wrong = { serializer: {} } as object
    await expect(rates.getOrSet('k', () => 1, wrong)).rejects.toThrow(optionError('no such option'))
    await rates.getOrSet('short', () => 1, { ttlMs: 10 })
    await rates.getOrSet('long', () => 1, { ttlMs: undefined } as object)
    await clock.advance(10)
    expect([await rates.get('short'), await rates.get('long')]).toEqual([undefined, 1])
  })

  it('rejects calls after close, and invalid keys', async () => {
    const { stampede, rates } = setUp()
    await expect(rates.get('')).rejects.toThrow(optionError('cache: key'))
    await expect(rates.getOrSet('', () => 1)).rejects.toThrow(optionError('cache: key'))
    await expect(rates.wrap(() => 1, { key: () => '' })()).rejects.toThrow(
      optionError('cache: key'),
    )
    await stampede.close()
    await expect(rates.get('a')).rejects.toMatchObject({ code: 'ERR_STAMPEDE_CLOSED' })
  })
})

describe('get() of a data cache', () => {
  it('returns a stored value from memory or the store until the stale window ends', async () => {
    const { a, b } = two({ staleWhileRevalidateMs: 1_000 })
    expect(await a.get('k')).toBeUndefined()
    await a.getOrSet('k', () => 'value')
    expect([await a.get('k'), await b.get('k')]).toEqual(['value', 'value'])
    await clock.advance(1_500)
    expect(await b.get('k')).toBe('value')
    await clock.advance(1_000)
    expect(await b.get('k')).toBeUndefined()
  })

  it('returns undefined while the store is unavailable', async () => {
    const { store, rates } = setUp()
    store.always = refuse
    expect(await rates.get('k')).toBeUndefined()
  })

  it('returns the stored values of many keys', async () => {
    const { rates } = setUp()
    await rates.set('a', 1)
    await rates.set('c', null)
    expect(await rates.getMany(['a', 'b', 'c'])).toEqual(
      new Map([
        ['a', 1],
        ['c', null],
      ]),
    )
  })
})

describe('set() and delete() of a data cache', () => {
  it('leaves no timer behind', async () => {
    const { rates } = setUp()
    await rates.set('k', 1)
    const before = clock.timers
    await rates.set('k', 2)
    expect(clock.timers).toBe(before)
  })

  it('replace and remove the value', async () => {
    const { rates } = setUp()
    expect(await rates.set('k', { at: new Date(0) })).toEqual({ at: '1970-01-01T00:00:00.000Z' })
    await rates.set('k', 2)
    expect(await rates.get('k')).toBe(2)
    await rates.delete('k')
    expect(await rates.get('k')).toBeUndefined()
  })

  it('store each value although other calls fill the key at the same time', async () => {
    const { rates } = setUp()
    const got = [1, 2, 3].map((value) => rates.set('k', value))
    expect(await Promise.all(got)).toEqual([1, 2, 3])
    expect(await rates.get('k')).toBe(3)
    const failing = rates.getOrSet('other', () => Promise.reject(new Error('down')))
    const other = rates.set('other', 'set')
    await expect(failing).rejects.toThrow('down')
    expect([await other, await rates.get('other')]).toEqual(['set', 'set'])
  })

  it('store the value although another process starts a fill after the purge', async () => {
    const { a, b, stores } = two()
    let filled: Promise<unknown> | undefined
    stores.a.next('lookup', async (work) => {
      filled = b.getOrSet('k', () => 'other')
      await filled
      return work()
    })
    expect(await a.set('k', 'set')).toBe('set')
    expect([await filled, await b.get('k')]).toEqual(['other', 'set'])
  })

  it('reject after waitMs while another process fills the key', async () => {
    const { a, b, stores } = two()
    let failed: Promise<unknown> | undefined
    stores.a.next('lookup', async (work) => {
      const never = () => new Promise<string>(() => {})
      const stuck = b.getOrSet('k', never, { originTimeoutMs: 500 })
      failed = expect(stuck).rejects.toMatchObject({ code: 'ERR_STAMPEDE_ORIGIN_TIMEOUT' })
      await settled()
      return work()
    })
    const set = a.set('k', 'new', { waitMs: 100 })
    const given = expect(set).rejects.toMatchObject({ code: 'ERR_STAMPEDE_WAIT_TIMEOUT' })
    // The first of them ends while the lookup of the other process is delayed.
    await settled()
    await settled()
    await clock.advance(100)
    await given
    await clock.advance(400)
    await failed
    await clock.advance(5_000)
  })

  it.each(['lookup', 'commit'] as const)(
    'reject if the store gets the purge but not the value (%s fails)',
    async (operation) => {
      const { store, rates } = setUp()
      await rates.set('k', 'old')
      store.next(operation, refuse).next(operation, refuse)
      await expect(rates.set('k', 'new')).rejects.toMatchObject({
        code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      })
    },
  )

  it('resolve only after the value is stored', async () => {
    const { store, rates } = setUp()
    const gate = new Gate()
    store.next('commit', gate.delayReply)
    let isSet = false
    const set = rates.set('k', 'new').then(() => (isSet = true))
    await settled()
    expect(isSet).toBe(false)
    gate.open()
    await set
  })

  it('resolve even if their own commit takes longer than waitMs', async () => {
    const { store, stampede } = setUp()
    const rates = stampede.cache('soon', { ttlMs: 1_000, waitMs: 0 })
    const gate = new Gate()
    store.next('commit', gate.delayReply)
    const set = rates.set('k', 'new')
    await settled()
    await clock.advance(100)
    gate.open()
    expect(await set).toBe('new')
  })

  it('reject if the store is unavailable during the commit, and purges may have been missed', async () => {
    const { store, rates } = setUp()
    const missed: Fault = async () => {
      store.hooks.onForget(0)
      return refuse(async () => {})
    }
    store.next('commit', missed).next('commit', missed)
    await expect(rates.set('k', 'new')).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
    })
  })

  it('resolve when the value is stored, even if another fill left a stale one', async () => {
    const { a, b, stores } = two({ staleWhileRevalidateMs: 60_000 })
    stores.a.next('lookup', async (work) => {
      await b.getOrSet('k', () => 'other')
      await clock.advance(1_500)
      return work()
    })
    const gate = new Gate()
    stores.a.next('commit', gate.delayReply)
    let isSet = false
    const set = a.set('k', 'new').then(() => (isSet = true))
    while (!stores.a.calls.some((call) => call.startsWith('commit'))) await settled()
    await settled()
    const wasSet = isSet
    gate.open()
    await set
    expect(wasSet).toBe(false)
    expect(await b.get('k')).toBe('new')
  })

  it('emit fill.started as a fill in the foreground', async () => {
    const { stampede, rates } = setUp()
    const started: boolean[] = []
    stampede.on('fill.started', ({ behind }) => started.push(behind))
    await rates.set('k', 'new')
    expect(started).toEqual([false])
  })

  it('resolve when a purge makes the value outdated at once, and do not store it again', async () => {
    const { store, stampede, rates } = setUp()
    store.next('commit', async (work) => {
      await stampede.purge({ key: 'rates:k' })
      return work()
    })
    expect(await rates.set('k', 'new')).toBe('new')
    expect(await rates.get('k')).toBeUndefined()
  })

  it('purge nothing if the promise for the value rejects, or the value cannot be stored', async () => {
    const { store, rates } = setUp()
    await rates.set('k', Promise.resolve('old'))
    store.calls.length = 0
    await expect(rates.set('k', Promise.reject(new Error('down')))).rejects.toThrow('down')
    await expect(rates.set('k', new Map())).rejects.toThrow('a Map would become {}')
    expect(store.calls).toEqual([])
    expect(await rates.get('k')).toBe('old')
  })

  it('reject if the store cannot get the purge', async () => {
    const { store, rates } = setUp()
    store.always = refuse
    await expect(rates.set('k', 1)).rejects.toThrow()
    await expect(rates.delete('k')).rejects.toThrow()
  })
})

describe('wrap() of a data cache', () => {
  it('runs the function once per key', async () => {
    const { rates } = setUp()
    const asked: string[] = []
    const load = rates.wrap(
      async (from: string, to: string) => {
        asked.push(`${from}${to}`)
        return { from, to }
      },
      { key: (from, to) => `${from}-${to}` },
    )
    expect(await Promise.all([load('a', 'b'), load('a', 'b')])).toEqual([
      { from: 'a', to: 'b' },
      { from: 'a', to: 'b' },
    ])
    await load('b', 'a')
    expect(asked).toEqual(['ab', 'ba'])
  })

  it('checks its options at creation', () => {
    const { rates } = setUp()
    const load = (options: object) => () => rates.wrap(() => 1, options as { key: () => string })
    expect(load({})).toThrow(optionError('wrap.key'))
    expect(load(undefined as never)).toThrow(optionError('wrap.key'))
    expect(() => rates.wrap(undefined as never, { key: () => 'k' })).toThrow(
      optionError('wrap: fn'),
    )
    expect(load({ key: () => 'k', ttl: 1 })).toThrow(optionError('did you mean ttlMs?'))
  })
})

describe('ttlMs as a function', () => {
  it('gets the value, and returns its lifetime', async () => {
    const { stampede } = setUp()
    const ttlMs = ({ forMs }: { forMs: number }) => forMs
    const tokens = stampede.cache('tokens', { ttlMs })
    const get = (key: string, forMs: number) => tokens.getOrSet(key, () => ({ forMs }))
    await Promise.all([get('a', 10), get('b', 100)])
    await clock.advance(10)
    expect([await tokens.get('a'), await tokens.get('b')]).toEqual([undefined, { forMs: 100 }])
  })

  it.each([0, '5', undefined, Number.NaN])('makes the call fail if it returns %o', async (bad) => {
    const { stampede } = setUp()
    const ttlMs = () => bad as number
    await expect(stampede.getOrSet('k', () => 1, { ttlMs })).rejects.toThrow(
      optionError('getOrSet.ttlMs()'),
    )
  })
})

describe('a serializer', () => {
  const maps: Serializer<Map<string, number>> = {
    serialize: (map) => JSON.stringify([...map]),
    deserialize: (bytes) => new Map(JSON.parse(String(bytes))),
  }

  it('stores values without a JSON form, and makes a new value for each call', async () => {
    const { stampede } = setUp()
    const cache = stampede.cache('maps', { ttlMs: 1_000, serializer: maps as Serializer })
    const first: Map<string, number> = await cache.getOrSet('k', () => new Map([['a', 1]]))
    first.set('b', 2)
    expect(await cache.get('k')).toEqual(new Map([['a', 1]]))
    expect(await cache.set('k', new Map([['c', 3]]))).toEqual(new Map([['c', 3]]))
  })

  describe('a serializer that cannot parse the stored value', () => {
    const versioned = (version: number): Serializer => ({
      serialize: (value) => `${version}${String(value)}`,
      deserialize: (bytes) => {
        if (String(bytes)[0] !== String(version)) throw new Error('an old version')
        return String(bytes).slice(1)
      },
    })
    const SWR = { ttlMs: 1_000, staleWhileRevalidateMs: 60_000, staleIfErrorMs: 60_000 }

    /** One process stores version 1. The other one parses version 2. */
    async function stored(options: Partial<DataCacheOptions> = {}) {
      const stores = sharedStores()
      const [old, present] = [stores.a, stores.b].map((store, i) => {
        const stampede = create(store)
        const serializer = versioned(i + 1)
        return { stampede, cache: stampede.cache('n', { ...SWR, ...options, serializer }) }
      })
      if (old === undefined || present === undefined) throw new Error('no process')
      await old.cache.set('k', 'old')
      const errors: unknown[] = []
      present.stampede.on('entry.unreadable', ({ error }) => errors.push(error))
      return { ...present, old: old.cache, errors, store: stores.b }
    }

    it('causes one run of the factory for all callers, and an event', async () => {
      const { cache, errors } = await stored()
      let runs = 0
      const get = () => cache.getOrSet('k', () => `new ${++runs}`)
      expect(await get()).toBe('new 1')
      expect(await get()).toBe('new 1')
      expect(await cache.get('k')).toBe('new 1')
      expect(errors).toEqual([new Error('an old version')])
    })

    it('causes one run of the factory for an entry in memory', async () => {
      const { cache, stampede, errors } = await stored()
      // Another cache of this process has parsed the entry.
      await stampede.cache('n', { ttlMs: 1_000 }).get('k')
      expect(await cache.getOrSet('k', () => 'new')).toBe('new')
      expect(await cache.get('k')).toBe('new')
      expect(errors).toHaveLength(1)
    })

    it('causes a run of the factory if the store is unavailable', async () => {
      const { cache, store } = await stored()
      await cache.get('k')
      store.always = refuse
      expect(await cache.getOrSet('k', () => 'new')).toBe('new')
    })

    it('makes get, previous and stale-if-error find no value', async () => {
      const { cache, errors } = await stored({ staleWhileRevalidateMs: 0 })
      expect(await cache.get('k')).toBeUndefined()
      await clock.advance(1_500)
      let previous: unknown = 'not asked'
      const failing = cache.getOrSet('k', (context) => {
        previous = context.previous
        throw new Error('down')
      })
      await expect(failing).rejects.toThrow('down')
      expect(previous).toBeUndefined()
      expect(errors).toHaveLength(3)
    })
  })

  it('makes the call fail if it returns neither text nor bytes', async () => {
    const { stampede } = setUp()
    const serializer = { serialize: () => 5, deserialize: String } as unknown as Serializer
    const cache = stampede.cache('broken', { ttlMs: 1_000, serializer })
    await expect(cache.getOrSet('k', () => 1)).rejects.toMatchObject({ code: 'ERR_STAMPEDE_VALUE' })
  })
})

describe('a value without a JSON form', () => {
  it('is rejected with its path', async () => {
    const { rates } = setUp()
    await expect(rates.getOrSet('k', () => ({ a: [new Map()] }))).rejects.toThrow(
      'getOrSet("rates:k"): value.a[0]: a Map would become {}',
    )
  })
})
