import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { GetOrSetOptions } from '../index.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import { begin, clock, create, end } from '../testing/resolve-bench.ts'
import { FaultyStore } from '../testing/store-doubles.ts'

beforeEach(begin)
afterEach(end)

function setUp(store?: FaultyStore) {
  const stampede = create(store)
  const origin = new ScriptedOrigin<unknown>()
  const get = (options = {}) => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000, ...options })
  return { stampede, origin, get }
}

describe('a miss of getOrSet', () => {
  it('runs the factory in the async context of its own caller, also if another call began the flight', async () => {
    const { stampede } = setUp()
    const user = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const origin = new ScriptedOrigin<string>()
    const get = (name: string) =>
      user.run(name, () =>
        stampede.getOrSet(
          'k',
          () => {
            seen.push(user.getStore())
            return origin.factory()
          },
          { ttlMs: 1_000 },
        ),
      )
    const asked = [get('ann'), get('bob')]
    await settled()
    await stampede.purge({ key: 'k' })
    await origin.run(0).resolve('old')
    origin.run(1).resolve('new')
    expect(await Promise.all(asked)).toEqual(['old', 'new'])
    expect(seen).toEqual(['ann', 'bob'])
  })

  it('runs the factory in the async context of its caller after waitMs, also behind a slow run', async () => {
    const { stampede } = setUp()
    const user = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const options = {
      ttlMs: 100,
      jitter: 0,
      staleIfErrorMs: 9_000,
      softTimeoutMs: 900,
      originTimeoutMs: 1_000,
      waitMs: 200,
    }
    await stampede.getOrSet('k', () => 'old', options)
    await clock.advance(150)
    const factory = () => {
      seen.push(user.getStore())
      return seen.length === 1 ? new Promise<string>(() => {}) : 'new'
    }
    const asked = user.run('ann', () => stampede.getOrSet('k', factory, options))
    await clock.advance(200)
    expect(await asked).toBe('new')
    expect(seen).toEqual(['ann', 'ann'])
    await clock.advance(1_000)
  })

  it('starts a lazy thenable in the async context of its caller, and unwraps its promise', async () => {
    const { stampede, origin } = setUp()
    const user = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const query = () => {
      const then = (resolve: (value: unknown) => void) => {
        seen.push(user.getStore())
        resolve(origin.factory())
      }
      return { then } as unknown as Promise<unknown>
    }
    const get = (name: string) =>
      user.run(name, () => stampede.getOrSet('k', query, { ttlMs: 1_000 }))
    const asked = [get('ann'), get('bob')]
    await settled()
    await stampede.purge({ key: 'k' })
    await origin.run(0).resolve('old')
    origin.run(1).resolve('new')
    expect(await Promise.all(asked)).toEqual(['old', 'new'])
    expect(seen).toEqual(['ann', 'bob'])
  })
})

describe('tags of getOrSet', () => {
  it('are computed from the value that the factory returns, with its type', async () => {
    const { stampede } = setUp()
    const asked: unknown[] = []
    const options: GetOrSetOptions<{ at: Date; brand: string }> = {
      ttlMs: 1_000,
      tags: (value) => {
        asked.push(value)
        return [value.brand]
      },
    }
    const factory = () => ({ at: new Date(0), brand: 'acme' })
    await stampede.getOrSet('a', factory, options)
    await stampede.getOrSet('b', factory, { ttlMs: 1_000, tags: ({ brand }) => [brand] })
    expect(asked).toEqual([{ at: '1970-01-01T00:00:00.000Z', brand: 'acme' }])
    await stampede.purge({ tag: 'acme' })
    expect(await stampede.getOrSet('a', () => 'new', { ttlMs: 1_000 })).toBe('new')
    expect(await stampede.getOrSet('b', () => 'new', { ttlMs: 1_000 })).toBe('new')
  })
})

describe('a stale value of getOrSet', () => {
  it('replaces an error of the factory only within staleIfErrorMs', async () => {
    const { origin, get } = setUp()
    const sie = { staleIfErrorMs: 5_000 }
    const first = get(sie)
    await settled()
    origin.run(0).resolve('old')
    await first
    await clock.advance(2_000)
    const asked = [get(sie), get(sie)]
    await settled()
    origin.run(1).reject(new Error('down'))
    expect(await Promise.all(asked)).toEqual(['old', 'old'])
    await clock.advance(5_000)
    const late = get(sie)
    await settled()
    origin.run(2).reject(new Error('still down'))
    await expect(late).rejects.toThrow('still down')
  })
})

describe('a factory that does not end in time', () => {
  it.each(['ends late', 'fails late'])(
    'is given up after originTimeoutMs even by its own caller, and has no effect when it %s',
    async (how) => {
      const { origin, get } = setUp()
      const code = (error: { code: string; message: string }) => `${error.code} ${error.message}`
      const all = [1, 2].map(() => get({ originTimeoutMs: 3_000 }).catch(code))
      await clock.advance(3_000)
      for (const each of all) {
        expect(await each).toMatch(/^ERR_STAMPEDE_ORIGIN_TIMEOUT "k" did not finish/)
      }
      if (how === 'ends late') origin.run(0).resolve('late')
      else origin.run(0).reject(new Error('late'))
      await clock.advance(2_000)
      const next = get()
      await clock.advance(0)
      origin.run(1).resolve('new')
      expect(await next).toBe('new')
    },
  )

  it('does not end the run that its caller began after waitMs', async () => {
    const { origin, get, stampede } = setUp()
    const options = { originTimeoutMs: 3_000, staleIfErrorMs: 9_000, softTimeoutMs: 40, waitMs: 50 }
    const first = get(options)
    await settled()
    origin.run(0).resolve('old')
    await first
    await clock.advance(2_000)
    const late = get(options)
    await settled()
    // The old value may no longer be served, so the caller waits for the refresh.
    await stampede.purge({ key: 'k' })
    await clock.advance(50)
    expect(origin.calls).toBe(3)
    // The deadline of the refresh is 50 ms before that of the run without a lease.
    await clock.advance(2_950)
    origin.run(2).resolve('own')
    expect(await late).toBe('own')
  })
})

describe('values of getOrSet', () => {
  it('are frozen and converted by JSON, also for the first caller', async () => {
    const { stampede } = setUp()
    const make = () => ({ at: new Date(0), list: [1] })
    const first = await stampede.getOrSet('v', make, { ttlMs: 1_000 })
    const second = await stampede.getOrSet('v', make, { ttlMs: 1_000 })
    expect(first).toEqual({ at: '1970-01-01T00:00:00.000Z', list: [1] })
    expect(second).toEqual(first)
    expect(() => (second.list as number[]).push(2)).toThrow(TypeError)
  })

  it.each([null, false, 0, ''])('may be %o', async (value) => {
    const { stampede } = setUp()
    let calls = 0
    const make = () => {
      calls += 1
      return value
    }
    expect(await stampede.getOrSet('v', make, { ttlMs: 1_000 })).toBe(value)
    expect(await stampede.getOrSet('v', make, { ttlMs: 1_000 })).toBe(value)
    expect(calls).toBe(1)
  })

  it('may be bytes, of which each caller gets a copy', async () => {
    const { stampede } = setUp()
    const make = () => Buffer.from([0, 255])
    const first = await stampede.getOrSet<Buffer>('b', make, { ttlMs: 1_000 })
    first[0] = 9
    expect(await stampede.getOrSet<Buffer>('b', make, { ttlMs: 1_000 })).toEqual(
      Buffer.from([0, 255]),
    )
  })

  it('are rejected with the fix if they have no JSON form', async () => {
    const { stampede } = setUp()
    const making = stampede.getOrSet('v', () => undefined, { ttlMs: 1_000 })
    await expect(making).rejects.toMatchObject({ code: 'ERR_STAMPEDE_VALUE' })
    await expect(stampede.getOrSet('w', () => 1n, { ttlMs: 1_000 })).rejects.toThrow('JSON')
  })
})

describe('a factory that finds the stored value unchanged', () => {
  const keep = { keepMs: 60_000 }

  it('commits the previous value again without computing a value', async () => {
    const store = new FaultyStore()
    const { stampede } = setUp(store)
    const ages: unknown[] = []
    const get = () =>
      stampede.getOrSet<{ price: number }>(
        'k',
        ({ previous, notModified }) => {
          ages.push(previous?.ageMs)
          return previous?.value.price === 5 ? notModified() : { price: 5 }
        },
        { ttlMs: 1_000, ...keep },
      )
    expect(await get()).toEqual({ price: 5 })
    await clock.advance(3_000)
    store.calls.length = 0
    expect(await get()).toEqual({ price: 5 })
    expect(store.calls.map((call) => call.split(' ')[0])).toEqual(['lookup', 'commit'])
    await clock.advance(999)
    await get()
    await clock.advance(1)
    await get()
    expect(ages).toEqual([undefined, 3_000, 1_000])
  })

  it('gets the previous bytes as a copy that it may change', async () => {
    const { stampede } = setUp()
    const get = () =>
      stampede.getOrSet<Uint8Array>(
        'k',
        ({ previous, notModified }) => {
          previous?.value.fill(9)
          return previous ? notModified() : Buffer.from([1, 2])
        },
        { ttlMs: 1_000, ...keep },
      )
    await get()
    await clock.advance(1_500)
    expect([...(await get())]).toEqual([1, 2])
  })

  it('passes the value to the tags function again', async () => {
    const { stampede } = setUp()
    const tagged: unknown[] = []
    const tags = (value: string) => {
      tagged.push(value)
      return [`run:${tagged.length}`]
    }
    let runs = 0
    const get = () =>
      stampede.getOrSet('k', (it) => (++runs > 1 && it.previous ? it.notModified() : 'a'), {
        ttlMs: 1_000,
        tags,
        ...keep,
      })
    await get()
    await clock.advance(1_500)
    await get()
    expect(tagged).toEqual(['a', 'a'])
    await stampede.purge({ tag: 'run:2' })
    await get()
    expect(runs).toBe(3)
    expect(tagged).toHaveLength(3)
  })

  it.each([
    ['there is no value', 0, {}],
    ['the value is past keepMs', 2_000, { keepMs: 500 }],
    ['the value was purged', 1_500, keep],
  ])('fails with notModified() if %s', async (why, waitMs, options) => {
    const { stampede } = setUp()
    const get = (factory: Parameters<typeof stampede.getOrSet<string>>[1]) =>
      stampede.getOrSet('k', factory, { ttlMs: 1_000, ...options })
    if (waitMs > 0) await get(() => 'a')
    await clock.advance(waitMs)
    if (why.includes('purged')) await stampede.purge({ all: true })
    await expect(get(({ notModified }) => notModified())).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
      message: expect.stringContaining('without a previous value'),
    })
  })

  it('cannot return the result of notModified() from another call', async () => {
    const { stampede } = setUp()
    let word: unknown
    await stampede.getOrSet('k', () => 'a', { ttlMs: 1_000, ...keep })
    await clock.advance(1_500)
    const say = (it: { notModified(): unknown }) => {
      word = it.notModified()
      return word
    }
    await stampede.getOrSet('k', say, { ttlMs: 1_000, ...keep })
    await expect(stampede.getOrSet('other', () => word, { ttlMs: 1_000 })).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
    })
  })

  it('passes its error on if the stored value is kept only for revalidation', async () => {
    const { stampede } = setUp()
    await stampede.getOrSet('k', () => 'a', { ttlMs: 1_000, ...keep })
    await clock.advance(1_500)
    const fails = () => {
      throw new Error('down')
    }
    await expect(stampede.getOrSet('k', fails, { ttlMs: 1_000, ...keep })).rejects.toThrow('down')
  })
})
