// Values and fills in flight when a tag, or everything, is purged: two processes on one memory
// store.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { PurgeTarget, Stampede } from './index.ts'
import { CONFIRMED_FOR_MS } from './ports/store.ts'
import { ScriptedOrigin, settled } from './testing/index.ts'
import { a, b, beginTwo, clock, end, stores, transcript } from './testing/resolve-bench.ts'
import { refuse } from './testing/store-doubles.ts'

const TAGGED = { ttlMs: 10_000, jitter: 0, tags: ['product:42', 'products'] }
const SWR = { ...TAGGED, staleWhileRevalidateMs: 5_000 }

/** The limit of the second process is small, so that a test reaches it quickly. */
const MOST_IN_L1 = 100

let origin: ScriptedOrigin<string>
beforeEach(() => {
  beginTwo({ l1: { maxEntries: MOST_IN_L1 } })
  origin = new ScriptedOrigin()
})
afterEach(end)

const get = (from: Stampede, options: object = TAGGED) =>
  from.getOrSet('k', origin.factory, { ...TAGGED, ...options })

/** Stores the value in the memory of both processes, and in the store. */
async function filled(options: object = TAGGED): Promise<void> {
  const first = get(a, options)
  await settled()
  origin.run(0).resolve('old')
  await first
  await get(b, options)
  transcript.take()
}

/** The next run of the origin returns `value`. */
async function refilled(from: Stampede, value: string, options: object = TAGGED): Promise<string> {
  const runs = origin.calls
  const next = get(from, options)
  await settled()
  expect(origin.calls).toBe(runs + 1)
  origin.run(runs).resolve(value)
  return next
}

describe('a purged value', () => {
  const SIE = { ...TAGGED, staleIfErrorMs: 60_000 }

  it('is not served by a soft timeout after a purge by key, or after a gap', async () => {
    const late = { ...SIE, softTimeoutMs: 8_000 }
    await filled(late)
    await clock.advance(11_000)
    stores.a.confirmed = clock.now()
    const first = get(a, late)
    await settled()
    // After this time, the next request begins a fill of its own, and the first fill is no longer
    // found by its key.
    await clock.advance(CONFIRMED_FOR_MS + 1)
    const next = get(a, late)
    await settled()
    await a.purge({ key: 'k' })
    stores.a.confirmed = clock.now()
    await clock.advance(4_000)
    for (let run = 1; run < origin.calls; run++) origin.run(run).resolve('new')
    expect(await Promise.all([first, next])).toEqual(['new', 'new'])
  })

  it('is filled by one run at a time in a process, also for waiters of a refused refresh', async () => {
    await filled(SWR)
    await clock.advance(11_000)
    expect(await get(a, SWR)).toBe('old')
    await settled()
    await a.purge({ tag: 'products' })
    const joined = get(a, SWR)
    await a.purge({ key: 'k' })
    stores.a.always = refuse
    const next = get(a, SWR)
    await settled()
    expect(origin.calls).toBe(3)
    origin.run(1).resolve('purged')
    // Waits until the lease is released, or cannot be released.
    await clock.advance(3_000)
    expect(origin.calls).toBe(3)
    origin.run(2).resolve('new')
    expect(await Promise.all([joined, next])).toEqual(['new', 'new'])
  })
})

describe('a purge by tag', () => {
  it('delays no caller for long if it is repeated faster than the value can be filled', async () => {
    const answered: string[] = []
    const ask = (from: Stampede) => void get(from).then((value) => answered.push(value))
    for (let n = 0; n < 6; n++) for (const from of [a, b]) ask(from)
    await settled()
    let ended = 0
    for (let round = 1; round <= 4; round++) {
      // One fill at a time in the fleet, and at most one in each process at the end.
      expect(origin.calls - ended).toBeLessThanOrEqual(round < 3 ? 1 : 2)
      await b.purge({ tag: 'products' })
      for (; ended < origin.calls; ended++) origin.run(ended).resolve(`of round ${round}`)
      await settled()
      await clock.advance(50)
    }
    expect(answered).toHaveLength(12)
    expect(origin.calls).toBeLessThanOrEqual(5)
    // A request after a purge gets no older value, in spite of the long waits of others.
    const late = get(a)
    await settled()
    origin.run(ended).resolve('late')
    expect(await late).toBe('late')
  })

  it('removes a value by the tags that its tags function returned', async () => {
    const options = { tags: (value: string) => [`is:${value}`] }
    await filled(options)
    await b.purge({ tag: 'is:new' })
    expect(await get(a, options)).toBe('old')
    await b.purge({ tag: 'is:old' })
    expect(await refilled(a, 'new', options)).toBe('new')
  })
})

describe('a soft purge', () => {
  it('starts the stale window at the purge', async () => {
    await filled(SWR)
    await a.purge({ all: true }, { soft: true })
    await clock.advance(4_999)
    expect(await get(b, SWR)).toBe('old')
    await settled()
    await clock.advance(1)
    const late = get(a, SWR)
    await settled()
    origin.run(1).resolve('new')
    expect(await late).toBe('new')
  })

  it('keeps the value in place of errors', async () => {
    const options = { staleIfErrorMs: 60_000 }
    await filled(options)
    await a.purge({ tag: 'products' }, { soft: true })
    const next = get(b, options)
    await settled()
    origin.run(1).reject(new Error('down'))
    expect(await next).toBe('old')
  })
})

describe('a copy in memory', () => {
  it('is not used longer than 5 s after the last confirmation of the purges', async () => {
    await filled()
    stores.b.confirmed = clock.now()
    await clock.advance(4_999)
    expect(await get(b)).toBe('old')
    expect(transcript.take()).toEqual(['b: hit l1'])
    await clock.advance(1)
    expect(await get(b)).toBe('old')
    expect(transcript.take()).toEqual(['b: hit l2'])
  })

  it('is not used longer because its key was looked up, since a tag may have been purged', async () => {
    await filled()
    stores.b.confirmed = clock.now()
    await clock.advance(5_000)
    await get(b)
    transcript.take()
    await get(b)
    expect(transcript.take()).toEqual(['b: hit l2'])
  })

  it('is not used longer during a background refresh either', async () => {
    const options = { staleWhileRevalidateMs: 60_000 }
    await filled(options)
    await clock.advance(10_000)
    stores.b.confirmed = clock.now()
    await clock.advance(4_900)
    expect(await get(b, options)).toBe('old')
    await settled()
    expect(await get(b, options)).toBe('old')
    await clock.advance(99)
    expect(await get(b, options)).toBe('old')
    await clock.advance(1)
    const late = get(b, options)
    await settled()
    origin.run(1).resolve('new')
    expect(await late).toBe('new')
  })

  it('is used for 5 s from the start of its fill if the purges are not confirmed', async () => {
    stores.a.confirmed = Number.NEGATIVE_INFINITY
    const first = get(a)
    await settled()
    await clock.advance(2_000)
    origin.run(0).resolve('v')
    await first
    transcript.take()
    await clock.advance(2_999)
    await get(a)
    await clock.advance(1)
    await get(a)
    expect(transcript.take()).toEqual(['a: hit l1', 'a: hit l2'])
  })
})

describe('a fill in flight', () => {
  it('gets no new followers if it began more than 5 s ago, with unconfirmed purges since', async () => {
    stores.a.next('lookup', refuse).next('lookup', refuse)
    stores.a.confirmed = Number.NEGATIVE_INFINITY
    const first = get(a)
    await settled()
    await clock.advance(4_999)
    const joined = get(a)
    await settled()
    expect(origin.calls).toBe(1)
    await clock.advance(1)
    const own = get(a)
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(0).resolve('old')
    origin.run(1).resolve('new')
    expect(await Promise.all([first, joined, own])).toEqual(['old', 'old', 'new'])
  })
})

describe('a purge by a path with a wildcard', () => {
  it.each([
    ['/products/*', '/products/*'],
    ['/products/:id', '/products/:id'],
    ['/shops/:shop/*/reviews', '/shops/:shop/:id/reviews'],
    ['/files/*rest', '/files/*rest'],
    ['/a*b', '/products/:id'],
  ])('rejects %s, and names the route to use', async (path, route) => {
    const message = `purge.path: received "${path}"; a path has no wildcards; to purge all paths of a pattern, use { route: '${route}' }`
    const error = { code: 'ERR_STAMPEDE_OPTION', message }
    await expect(a.purge({ path })).rejects.toMatchObject(error)
    await expect(a.purge({ paths: ['/', path] })).rejects.toMatchObject(error)
    await a.purge({ route })
  })

  it.each([
    { path: '/products/42' },
    { path: '/books/urn:isbn:42' },
    { path: '/items/5:cancel', host: 'shop.test:8080' },
    { path: '/a%2Ab/%3Aid' },
    { route: '/files/*rest' },
    { tag: 'a*' },
    { key: '/a/*' },
  ])('accepts %o, which is no pattern there', (target) => a.purge(target))
})

describe('a purge of several', () => {
  const sent = () => stores.a.calls.filter((call) => /^(mark|purge) /.test(call))

  it.each<[PurgeTarget, readonly string[]]>([
    [{ tags: ['x', 'y', 'x'] }, ['t=x', 't=y']],
    [{ paths: ['/A/', '/b'] }, ['p=/a', 'p=/b']],
    [{ paths: ['/a', '/b'], host: 'S.test' }, ['h=s.test/a', 'h=s.test/b']],
    [{ routes: ['/a/:id', '/b/*'] }, ['r/a/:id', 'r/b/*']],
  ])('%j is one command of the store', async (target, subjects) => {
    await a.purge(target)
    expect(sent()).toEqual([`mark ${subjects}`])
  })

  it('removes the values of any of the tags, in each process', async () => {
    await filled()
    await a.purge({ tags: ['other', 'products'] })
    expect(await refilled(b, 'new')).toBe('new')
  })

  it('removes the values of all keys, and makes them stale if it is soft', async () => {
    await filled(SWR)
    await b.purge({ keys: ['other', 'k'] }, { soft: true })
    expect(await get(a, SWR)).toBe('old')
    await settled()
    await origin.run(1).resolve('new')
    await b.purge({ keys: ['other', 'k'] })
    expect(await refilled(a, 'newer', SWR)).toBe('newer')
  })

  it('names the keys that could not be purged, and purges the others', async () => {
    await filled()
    stores.a.next('purge', refuse)
    const failing = a.purge({ keys: ['gone', 'k'] })
    await expect(failing).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      message: expect.stringMatching(/ purge of "gone": /),
    })
    expect(await refilled(b, 'new')).toBe('new')
  })

  it.each<[object, RegExp]>([
    [{ tags: [] }, /^purge\.tags: received an array of 0; use an array of 1 to 128 non-empty str/],
    [
      { keys: Array(129).fill('k') },
      /^purge\.keys: received an array of 129; .*split a longer one$/,
    ],
    [{ tags: 'x' }, /^purge\.tags: received "x"; use an array of 1 to 128 /],
    [{ tags: ['x', ''] }, /^purge\.tags\[1\]: received ""; use a non-empty string/],
    [{ routes: ['/a/:id', 'b'] }, /^purge\.route: received "b"; begin it with \//],
    [{ paths: ['/a?b'] }, /^purge\.path: received "\/a\?b"; pass the path only/],
    [{ tag: ['x'] }, /^purge\.tag: received an array of 1; .*; to purge several, use tags$/],
    [{ tag: 'x', tags: ['y'] }, /it has tag and tags; pass exactly one target/],
    [{ tags: ['x'], host: 's.test' }, /a host needs a path/],
  ])('rejects %j, and purges nothing', async (target, message) => {
    await expect(a.purge(target as PurgeTarget)).rejects.toThrow(message)
    expect(sent()).toEqual([])
  })
})
