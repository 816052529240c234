import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { DataCache, Stampede } from '../index.ts'
import { runtimeOf } from '../stampede.ts'
import { settled } from '../testing/index.ts'
import { begin, clock, create, end, setUpTwo, transcript } from '../testing/resolve-bench.ts'
import { FaultyStore, Gate, refuse } from '../testing/store-doubles.ts'

type DataCacheOptions = Parameters<Stampede['cache']>[1]

beforeEach(begin)
afterEach(end)

const open = (stampede: Stampede, options: Partial<DataCacheOptions> = {}) =>
  stampede.cache('n', { ttlMs: 1_000, ...options })

function setUp(options?: Partial<DataCacheOptions>, config?: { originConcurrency?: number }) {
  const store = new FaultyStore()
  const stampede = create(store, config)
  return { store, stampede, cache: open(stampede, options) }
}

/** The same cache in two processes. */
function two(options?: Partial<DataCacheOptions>) {
  const { a, b, storeA } = setUpTwo()
  return { a: open(a, options), b: open(b, options), storeA }
}

/** A factory of many keys whose calls the test ends. */
class Loader {
  readonly calls: string[] = []
  readonly #ends: Array<(result: unknown) => void> = []
  readonly load = (keys: readonly string[]): Promise<Map<string, string>> => {
    this.calls.push(keys.join(' '))
    return new Promise((resolve) => this.#ends.push(resolve as (result: unknown) => void))
  }

  end(call: number, result: unknown = this.#all(call)): void {
    this.#ends[call]?.(result)
  }

  fail(call: number, error: Error): void {
    this.#ends[call]?.(Promise.reject(error))
  }

  #all(call: number): Map<string, string> {
    return new Map(this.calls[call]?.split(' ').map((key) => [key, `${key}${call}`]))
  }
}

/** Calls `getOrSetMany`, whose factory runs until the test ends it. */
async function fill(cache: DataCache, keys: readonly string[]) {
  const loader = new Loader()
  const asked = cache.getOrSetMany(keys, loader.load)
  await settled()
  return { loader, asked }
}

const values = (text: string) =>
  new Map(text.split(' ').map((each) => [each.slice(0, 1), each] as const))
const mapOf = (object: object) => new Map<string, unknown>(Object.entries(object))
const upper = (keys: readonly string[]) => new Map(keys.map((key) => [key, key.toUpperCase()]))

describe('getOrSetMany()', () => {
  it('runs the factory once with all keys, and returns the values in the order of the keys', async () => {
    const { cache } = setUp()
    const all = new Loader()
    const asked = cache.getOrSetMany(['b', 'a', 'b', 'c'], all.load)
    await settled()
    expect(all.calls).toEqual(['b a c'])
    all.end(0, values('c0 a0 b0'))
    expect([...(await asked)]).toEqual([
      ['b', 'b0'],
      ['a', 'a0'],
      ['c', 'c0'],
    ])
    expect(transcript.take().filter((type) => type === 'fill.committed')).toHaveLength(3)
  })

  it('runs no factory and sends nothing for an empty array and for fresh values in memory', async () => {
    const { cache, store, stampede } = setUp()
    const fails = () => {
      throw new Error('must not run')
    }
    expect(await cache.getOrSetMany([], fails)).toEqual(new Map())
    expect(store.calls).toEqual([])
    await cache.getOrSetMany(['a', 'b'], upper)
    store.calls.length = 0
    expect(await cache.getOrSetMany(['b', 'a'], fails)).toEqual(upper(['b', 'a']))
    expect(store.calls).toEqual([])
    expect(stampede.stats()).toMatchObject({ hits: { l1: 2 }, misses: 2 })
  })

  it('uses the keys that the array had at the call', async () => {
    const { cache } = setUp()
    const loader = new Loader()
    const keys = ['a']
    const asked = cache.getOrSetMany(keys, loader.load)
    keys.push('b')
    await settled()
    loader.end(0)
    expect([...(await asked).keys()]).toEqual(['a'])
  })

  it('runs the factory once for cold keys and for stale ones, in memory too', async () => {
    for (const store of [undefined, new FaultyStore()]) {
      const cache = open(create(store), { staleWhileRevalidateMs: 9_000 })
      const loader = new Loader()
      await cache.getOrSetMany(['a', 'b'], upper)
      await clock.advance(1_500)
      const asked = cache.getOrSetMany(['c', 'a', 'd', 'b'], loader.load)
      await settled()
      expect(loader.calls.map((call) => call.split(' ').sort().join(' '))).toEqual(['a b c d'])
      loader.end(0)
      expect([...(await asked).values()]).toEqual(['c0', 'A', 'd0', 'B'])
    }
  })

  it('joins runs of this process, and calls of one key join it', async () => {
    const { cache } = setUp()
    const [one, many] = [new Loader(), new Loader()]
    const single = cache.getOrSet('a', () => one.load(['a']))
    await settled()
    const asked = cache.getOrSetMany(['a', 'b'], many.load)
    await settled()
    const joined = cache.getOrSet('b', () => 'own')
    expect([one.calls, many.calls]).toEqual([['a'], ['b']])
    many.end(0)
    one.end(0, 'single')
    expect([await single, await joined]).toEqual(['single', 'b0'])
    expect([...(await asked)]).toEqual([
      ['a', 'single'],
      ['b', 'b0'],
    ])
  })

  it('starts its run without waiting for keys that another process fills', async () => {
    const { a, b } = two()
    const [first, second] = [new Loader(), new Loader()]
    const [inA, inB] = [
      a.getOrSetMany(['x', 'y'], first.load),
      settled().then(() => b.getOrSetMany(['z', 'y'], second.load)),
    ]
    await settled()
    await settled()
    expect([first.calls, second.calls]).toEqual([['x y'], ['z']])
    second.end(0)
    first.end(0)
    expect(await inA).toEqual(values('x0 y0'))
    expect(await inB).toEqual(values('z0 y0'))
  })

  it('does not hang if two calls have the same keys in opposite order', async () => {
    const { a, b } = two()
    const load = async (keys: readonly string[]) => upper(keys)
    const keys = ['p', 'q', 'r', 's']
    const all = await Promise.all([
      a.getOrSetMany(keys, load),
      b.getOrSetMany([...keys].reverse(), load),
      a.getOrSetMany([...keys].reverse(), load),
    ])
    for (const each of all) expect(each).toEqual(upper(keys))
  })

  it('runs the factory once more for all keys whose holder died', async () => {
    const { a, b, storeA } = two({ leaseMs: 1_000 })
    const [dead, alive] = [new Loader(), new Loader()]
    void a.getOrSetMany(['x', 'y', 'z'], dead.load).catch(() => {})
    await settled()
    // Its renewals no longer arrive.
    storeA.always = refuse
    const asked = b.getOrSetMany(['w', 'x', 'y', 'z'], alive.load)
    await settled()
    alive.end(0)
    await clock.advance(1_100)
    expect(alive.calls).toEqual(['w', 'x y z'])
    alive.end(1)
    expect(await asked).toEqual(values('w0 x1 y1 z1'))
    dead.end(0)
    await settled()
  })

  it('runs the factory once more for all keys that others fill for longer than waitMs', async () => {
    const { a, b } = two({ waitMs: 300 })
    const [slow, loader] = [new Loader(), new Loader()]
    const late = a.getOrSetMany(['x', 'y'], slow.load)
    await settled()
    const asked = b.getOrSetMany(['x', 'y'], loader.load)
    await clock.advance(310)
    expect(loader.calls).toEqual(['x y'])
    loader.end(0)
    expect(await asked).toEqual(values('x0 y0'))
    slow.end(0)
    await late
  })

  it('shares the failure of another process, without a run of its own', async () => {
    const { a, b } = two()
    const [first, second] = [new Loader(), new Loader()]
    const failed = a.getOrSetMany(['x', 'y'], first.load)
    await settled()
    const asked = b.getOrSetMany(['x', 'y'], second.load)
    await settled()
    first.fail(0, new Error('down'))
    await expect(failed).rejects.toThrow('down')
    await expect(asked).rejects.toMatchObject({ code: 'ERR_STAMPEDE_MANY_FAILED' })
    expect(second.calls).toEqual([])
  })

  it('refuses only the commit of a key that is purged during the run', async () => {
    const { cache } = setUp()
    const { loader, asked } = await fill(cache, ['a', 'b'])
    await cache.delete('a')
    loader.end(0)
    expect(await asked).toEqual(values('a0 b0'))
    expect(await cache.getMany(['a', 'b'])).toEqual(values('b0'))
    expect(transcript.take().filter((type) => type === 'fill.fenced')).toHaveLength(1)
  })

  it('stores nothing usable if a tag of the values is purged during the run', async () => {
    const { cache, stampede } = setUp({ tags: ['t'] })
    const { loader, asked } = await fill(cache, ['a', 'b'])
    await stampede.purge({ tag: 't' })
    loader.end(0)
    expect(await asked).toEqual(values('a0 b0'))
    expect(await cache.getMany(['a', 'b'])).toEqual(new Map())
  })

  it('purges values without a search among all fills', async () => {
    const { cache, stampede } = setUp()
    const search = vi.spyOn(runtimeOf(stampede).flights, 'values')
    await cache.setMany(values('a0 b0 c0'))
    await cache.deleteMany(['a', 'b', 'c'])
    expect(await cache.getMany(['a', 'b', 'c'])).toEqual(new Map())
    expect(search).not.toHaveBeenCalled()
  })

  it('leaves out keys without a value, and frees them for the next call', async () => {
    const { cache } = setUp()
    const { loader, asked } = await fill(cache, ['a', 'b', 'c'])
    loader.end(0, { a: 'a0', c: undefined })
    expect(await asked).toEqual(values('a0'))
    expect(transcript.take().filter((type) => type === 'fill.skipped')).toHaveLength(2)
    expect(await cache.getOrSetMany(['a', 'b', 'c'], upper)).toEqual(
      mapOf({ a: 'a0', b: 'B', c: 'C' }),
    )
  })

  it('leaves out a missing key for 1 000 batches after one run, in each process', async () => {
    const { a, b } = two()
    const [inA, inB] = [new Loader(), new Loader()]
    const asked = Array.from({ length: 1_000 }, () => a.getOrSetMany(['x'], inA.load))
    await settled()
    const others = Array.from({ length: 1_000 }, () => b.getOrSetMany(['x'], inB.load))
    await settled()
    inA.end(0, {})
    for (const found of await Promise.all(asked)) expect(found).toEqual(new Map())
    await settled()
    inB.end(0, {})
    for (const found of await Promise.all(others)) expect(found).toEqual(new Map())
    expect([inA.calls, inB.calls]).toEqual([['x'], ['x']])
  }, 20_000)

  it('runs the factory of one getOrSet of a missing key, for all that waited', async () => {
    for (const store of [undefined, new FaultyStore()]) {
      const cache = open(create(store))
      const [many, one] = [new Loader(), new Loader()]
      const asked = cache.getOrSetMany(['x'], many.load)
      await settled()
      const single = Array.from({ length: 1_000 }, () => cache.getOrSet('x', () => one.load(['x'])))
      many.end(0, {})
      expect(await asked).toEqual(new Map())
      await settled()
      expect(one.calls).toEqual(['x'])
      one.end(0, 'found')
      expect(new Set(await Promise.all(single))).toEqual(new Set(['found']))
    }
  })

  it('gives callers the values that skip() names, and stores the others only', async () => {
    const { a, b } = two({ staleWhileRevalidateMs: 9_000 })
    const loader = new Loader()
    const asked = a.getOrSetMany(['p', 'q', 'r'], async (keys, { skip }) => {
      for (const key of ['q', 'r']) skip(key)
      return loader.load(keys)
    })
    await settled()
    const single = a.getOrSet('q', () => 'own')
    loader.end(0, values('p0 q0'))
    expect(await asked).toEqual(values('p0 q0'))
    expect(await single).toBe('q0')
    expect(await b.getMany(['p', 'q', 'r'])).toEqual(values('p0'))
    const wrong = a.getOrSetMany(['z'], async (_, { skip }) => {
      skip('y')
      return {}
    })
    await expect(wrong).rejects.toThrow('getOrSetMany: skip')
  })

  it('ignores keys that were not asked for, and warns once', async () => {
    const { cache } = setUp()
    const warned: string[] = []
    const onWarning = (warning: Error & { code?: string }) => {
      if (warning.code === 'STAMPEDE_UNASKED_KEY') warned.push(warning.message)
    }
    process.on('warning', onWarning)
    for (const key of ['a', 'b'])
      await cache.getOrSetMany(
        [key],
        () =>
          new Map([
            [key, 1],
            ['other', 2],
          ]),
      )
    expect(await cache.getMany(['a', 'b', 'other'])).toEqual(mapOf({ a: 1, b: 1 }))
    await settled()
    process.off('warning', onWarning)
    expect(warned).toEqual([expect.stringContaining('cache "n" returned keys')])
  })

  it('accepts keys such as __proto__ in a Map and in an object without a prototype', async () => {
    const { cache } = setUp()
    const made = Object.assign(Object.create(null), { constructor: 1 })
    Object.defineProperty(made, '__proto__', { value: 2, enumerable: true })
    const keys = ['__proto__', 'constructor', 'toString']
    expect([...(await cache.getOrSetMany(keys, () => made))]).toEqual([
      ['__proto__', 2],
      ['constructor', 1],
    ])
    expect(await cache.getOrSetMany(['toString'], () => ({}))).toEqual(new Map())
  })

  it('gives fences, previous values and notModified() by key', async () => {
    const { cache } = setUp({ keepMs: 9_000, jitter: 0 })
    await cache.getOrSetMany(['a', 'b'], upper)
    await clock.advance(1_500)
    let seen: unknown
    const result = await cache.getOrSetMany<string>(['a', 'b', 'c'], (keys, context) => {
      const { fences, previous, notModified, signal } = context
      seen = [keys, [...fences.keys()], [...previous], signal.aborted]
      notModified('a')
      expect(() => notModified('c')).toThrow('notModified() was called without a previous value')
      expect(() => notModified('z')).toThrow('use one of the keys')
      return { b: 'b1', c: 'c1' }
    })
    expect(result).toEqual(mapOf({ a: 'A', b: 'b1', c: 'c1' }))
    expect(seen).toEqual([
      ['a', 'b', 'c'],
      ['a', 'b', 'c'],
      [
        ['a', { value: 'A', ageMs: 1_500 }],
        ['b', { value: 'B', ageMs: 1_500 }],
      ],
      false,
    ])
    await clock.advance(900)
    expect(await cache.get('a')).toBe('A')
  })

  it('rejects with the error of the factory, and shares it with other callers of the keys', async () => {
    const { cache } = setUp()
    const { loader, asked } = await fill(cache, ['a', 'b'])
    const joined = cache.getOrSet('a', () => 'own')
    const error = new Error('query failed')
    loader.fail(0, error)
    await expect(asked).rejects.toBe(error)
    await expect(joined).rejects.toBe(error)
    expect(transcript.take().filter((type) => type === 'fill.failed')).toHaveLength(2)
  })

  it('serves stale values if the factory fails, and rejects if a key has none', async () => {
    const { cache } = setUp({ staleIfErrorMs: 9_000 })
    await cache.getOrSetMany(['a', 'b'], upper)
    await clock.advance(1_500)
    const fails = async () => {
      throw new Error('down')
    }
    expect(await cache.getOrSetMany(['a', 'b'], fails)).toEqual(upper(['a', 'b']))
    await clock.advance(2_000)
    await expect(cache.getOrSetMany(['a', 'c'], fails)).rejects.toThrow('down')
  })

  it('fails single keys by fail(), and stores the others', async () => {
    const { cache } = setUp()
    const error = new Error('row is locked')
    const asked = cache.getOrSetMany(['a', 'b'], (_, { fail }) => {
      fail('b', error)
      return { a: 'a0', b: 'ignored' }
    })
    await expect(asked).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_MANY_FAILED',
      message: expect.stringMatching(/getOrSetMany: 1 of 2 keys failed, "b" with: row is locked/),
      values: values('a0'),
      errors: new Map([['b', error]]),
    })
    expect(await cache.getMany(['a', 'b'])).toEqual(values('a0'))
  })

  it('fails only the keys whose value cannot be stored, or whose ttlMs or tags fail', async () => {
    const { cache } = setUp({
      ttlMs: (value: unknown) => (value === 'no ttl' ? -1 : 500),
      tags: (value: unknown) => (value === 'no tags' ? (5 as never) : []),
    } as never)
    const made = new Map<string, unknown>([
      ['map', new Map()],
      ['ttl', 'no ttl'],
      ['tags', 'no tags'],
      ['promise', Promise.reject(new Error('never seen'))],
      ['ok', 'ok'],
    ])
    const asked = cache.getOrSetMany([...made.keys()], () => made)
    const { errors, values: stored } = await asked.catch((error) => error)
    expect([...errors.keys()]).toEqual(['map', 'ttl', 'tags', 'promise'])
    expect([...stored]).toEqual([['ok', 'ok']])
    expect(errors.get('promise').message).toContain('await the values')
  })

  it('takes one concurrency slot for all keys while the store is unavailable', async () => {
    const { cache, store, stampede } = setUp({}, { originConcurrency: 1 })
    store.always = refuse
    const [first, second] = [new Loader(), new Loader()]
    const asked = [
      cache.getOrSetMany(['a', 'b', 'c'], first.load),
      cache.getOrSetMany(['d', 'e'], second.load),
    ]
    await settled()
    expect([first.calls, second.calls]).toEqual([['a b c'], []])
    first.end(0)
    await settled()
    expect(second.calls).toEqual(['d e'])
    second.end(0)
    expect(await Promise.all(asked)).toEqual([values('a0 b0 c0'), values('d0 e0')])
    expect(stampede.stats().unleased).toEqual({ running: 0, queued: 0 })
  })

  it('runs keys with and without a lease in one run', async () => {
    const { cache, store } = setUp()
    store.next('lookup', refuse)
    const { loader, asked } = await fill(cache, ['a', 'b'])
    expect(loader.calls).toHaveLength(1)
    loader.end(0)
    expect(await asked).toEqual(new Map([...values('a0 b0')]))
    expect(store.calls.filter((call) => call.startsWith('commit'))).toEqual(['commit d:=n:b'])
  })

  it('waits for a slow lookup of one key before it runs the factory', async () => {
    const { cache, store } = setUp()
    const gate = new Gate()
    store.next('lookup', gate.delayReply)
    const { loader, asked } = await fill(cache, ['a', 'b'])
    expect(loader.calls).toEqual([])
    gate.open()
    await settled()
    expect(loader.calls).toHaveLength(1)
    loader.end(0)
    await asked
  })

  it('aborts the signal and fails all keys of a run after originTimeoutMs', async () => {
    const { cache } = setUp({ originTimeoutMs: 500 })
    let signal: AbortSignal | undefined
    const asked = cache.getOrSetMany(['a', 'b'], (_, context) => {
      signal = context.signal
      return new Promise<Map<string, string>>(() => {})
    })
    const failed = asked.catch((error) => error)
    await clock.advance(510)
    expect([...(await failed).errors.values()].map(({ code }: { code: string }) => code)).toEqual([
      'ERR_STAMPEDE_ORIGIN_TIMEOUT',
      'ERR_STAMPEDE_ORIGIN_TIMEOUT',
    ])
    expect(signal?.aborted).toBe(true)
  })

  it('runs the factory in the async context of its call', async () => {
    const { a, b } = two({ waitMs: 300 })
    const user = new AsyncLocalStorage<string>()
    const { loader, asked: blocked } = await fill(a, ['x'])
    const seen: unknown[] = []
    const asked = user.run('ann', () =>
      b.getOrSetMany(['x', 'y'], (keys) => {
        seen.push(user.getStore())
        return upper(keys)
      }),
    )
    await clock.advance(310)
    await asked
    loader.end(0)
    await blocked
    expect(seen).toEqual(['ann', 'ann'])
  })

  it('rejects wrong arguments and results with a message that says what to use', async () => {
    const { cache, store } = setUp()
    const many = cache.getOrSetMany as (keys: unknown, factory?: unknown) => Promise<unknown>
    const wrong = (message: string) =>
      expect.objectContaining({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining(message),
      })
    await expect(many('a', upper)).rejects.toThrow(wrong('use an array: getOrSetMany([key])'))
    await expect(many(['a', ''], upper)).rejects.toThrow(wrong('cache: key: received ""'))
    await expect(many(['a', 5], upper)).rejects.toThrow(wrong('cache: key: received 5'))
    await expect(many(['a'])).rejects.toThrow(wrong('getOrSetMany: factory'))
    const tooMany = Array.from({ length: 10_001 }, String)
    await expect(many(tooMany, upper)).rejects.toThrow(wrong('at most 10000 keys'))
    expect(store.calls).toEqual([])
    for (const result of [['a'], undefined, 'text', new Set()]) {
      await expect(many(['a'], () => result)).rejects.toMatchObject({
        code: 'ERR_STAMPEDE_VALUE',
        message: expect.stringContaining('return a Map or a plain object of values by key'),
      })
    }
  })

  it('fails only the keys that the serializer refuses, and stores the others', async () => {
    const { cache, store } = setUp({ serializer: picky('bad') })
    const made = { a: 'good', b: 'bad', c: 'good' }
    const failed = await cache
      .getOrSetMany<string>(['a', 'b', 'c'], () => made)
      .catch((error) => error)
    expect(failed.code).toBe('ERR_STAMPEDE_MANY_FAILED')
    expect([...failed.values]).toEqual([
      ['a', 'good'],
      ['c', 'good'],
    ])
    expect(failed.errors.get('b')).toMatchObject({ message: 'no bad' })
    expect(store.calls.filter((call) => call.startsWith('commit'))).toHaveLength(2)
  })

  it('fills again the keys that the serializer cannot parse', async () => {
    let isBroken = false
    const deserialize = (bytes: Buffer) => {
      if (isBroken && String(bytes) === 'old') throw new Error('unreadable')
      return String(bytes)
    }
    const { a, b } = two({ serializer: { serialize: String, deserialize } })
    await a.setMany(new Map(Object.entries({ x: 'good', y: 'old' })))
    isBroken = true
    const asked: string[] = []
    const result = await b.getOrSetMany<string>(['x', 'y'], (keys) => {
      asked.push(...keys)
      return { y: 'good' }
    })
    expect(result.get('y')).toBe('good')
    expect(asked).toEqual(['y'])
    expect((await b.getMany(['x', 'y'])).size).toBe(2)
  })
})

/** A serializer that throws for this value. */
const picky = (refused: string) => ({
  serialize(value: unknown) {
    if (value === refused) throw new Error(`no ${refused}`)
    return String(value)
  },
  deserialize: String,
})

describe('setMany() and deleteMany()', () => {
  it('stores all values, of two entries of a key the later one', async () => {
    const { a, b } = two()
    await a.setMany([
      ['x', 1],
      ['y', 2],
      ['x', 3],
    ])
    expect(await b.getMany(['x', 'y'])).toEqual(mapOf({ x: 3, y: 2 }))
    await b.deleteMany(['x', 'y', 'z'])
    await settled()
    expect(await a.getMany(['x', 'y'])).toEqual(new Map())
    await a.setMany(new Map())
    await a.deleteMany([])
  })

  it('stores and purges nothing if one value cannot be encoded', async () => {
    const { cache, store } = setUp()
    await cache.set('a', 'old')
    store.calls.length = 0
    const asked = cache.setMany<unknown>([
      ['a', 'new'],
      ['b', new Map()],
    ])
    await expect(asked).rejects.toMatchObject({ code: 'ERR_STAMPEDE_VALUE' })
    expect(store.calls).toEqual([])
    expect(await cache.get('a')).toBe('old')
  })

  it('refuses the commits of runs that began before', async () => {
    const { cache } = setUp()
    const { loader, asked } = await fill(cache, ['a', 'b'])
    await cache.setMany([['a', 'set']])
    loader.end(0)
    await asked
    expect(await cache.getMany(['a', 'b'])).toEqual(mapOf({ a: 'set', b: 'b0' }))
  })

  it('tries again if another caller fills a key after the purge', async () => {
    const { a, b, storeA } = two()
    const gate = new Gate()
    storeA.next('purge', gate.delayReply)
    const set = a.setMany([
      ['x', 'set'],
      ['y', 'set'],
    ])
    await settled()
    const { loader, asked: other } = await fill(b, ['x'])
    gate.open()
    await settled()
    loader.end(0)
    await Promise.all([set, other])
    expect(await b.getMany(['x', 'y'])).toEqual(mapOf({ x: 'set', y: 'set' }))
  })

  it('names the keys that were not stored or purged', async () => {
    const { cache, store } = setUp()
    store.next('purge', refuse)
    const failed = await cache
      .setMany([
        ['a', 1],
        ['b', 2],
      ])
      .catch((error) => error)
    expect(failed).toMatchObject({ code: 'ERR_STAMPEDE_MANY_FAILED', values: new Map([['b', 2]]) })
    expect([...failed.errors.keys()]).toEqual(['a'])
    store.next('purge', refuse)
    await expect(cache.deleteMany(['a', 'b'])).rejects.toMatchObject({
      message: expect.stringContaining('deleteMany: 1 of 2 keys failed, "a" with'),
    })
    expect(await cache.getMany(['a', 'b'])).toEqual(new Map())
  })

  it('rejects entries that are no pairs', async () => {
    const { cache } = setUp()
    for (const entries of [undefined, 5, 'ab', { a: 1 }, ['ab']]) {
      await expect(cache.setMany(entries as never)).rejects.toMatchObject({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining('use a Map, or an array of [key, value]'),
      })
    }
    await expect(cache.deleteMany('a' as never)).rejects.toThrow('use an array: deleteMany([key])')
  })
})
