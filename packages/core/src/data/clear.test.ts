// `clear()` and `purge({ cache })`: all values of one named cache. Two processes on one store.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createStampede, type DataCache } from '../index.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import { a, b, beginTwo, clock, end, stores, transcript } from '../testing/resolve-bench.ts'
import { refuse } from '../testing/store-doubles.ts'

const OPTIONS = { ttlMs: 10_000, jitter: 0 }

let rates: { a: DataCache; b: DataCache }
beforeEach(() => {
  beginTwo()
  rates = { a: a.cache('rates', OPTIONS), b: b.cache('rates', OPTIONS) }
})
afterEach(end)

const names = (cache: DataCache) => Promise.all(['eur', 'usd', 'gbp'].map((key) => cache.get(key)))

/** One value of each way to store one. */
async function filled(): Promise<void> {
  await rates.a.getOrSet('eur', () => 1, { tags: ['money'] })
  await rates.a.set('usd', 2)
  await rates.a.wrap(() => 3, { key: () => 'gbp' })()
  expect(await names(rates.b)).toEqual([1, 2, 3])
}

describe('clear', () => {
  it('purges all values of the cache in each process, by one command of the store', async () => {
    await filled()
    await a.cache('other', OPTIONS).set('eur', 4)
    await a.getOrSet('eur', () => 5, { ...OPTIONS, tags: ['c=rates', 'rates'] })
    const sent = stores.b.calls.length
    expect(await rates.b.clear()).toBe(undefined)
    expect(stores.b.calls.slice(sent)).toEqual(['mark c=rates'])
    for (const cache of [rates.a, rates.b])
      expect(await names(cache)).toEqual([undefined, undefined, undefined])
    expect(await b.cache('other', OPTIONS).get('eur')).toBe(4)
    // No tag is equal to the subject of the cache.
    expect(await b.getOrSet('eur', () => 6, OPTIONS)).toBe(5)
    await rates.a.set('eur', 7)
    expect(await rates.b.get('eur')).toBe(7)
  })

  it('is the same as purge({ cache }), and succeeds for an unknown name', async () => {
    await filled()
    const heard = new Promise((resolve) => b.on('entry.purged', resolve))
    await a.purge({ cache: 'rates' })
    expect(await heard).toMatchObject({ by: 'cache', key: 'rates', soft: false })
    expect(await names(rates.b)).toEqual([undefined, undefined, undefined])
    await a.purge({ cache: 'nobody' })
    await a.cache('nobody', OPTIONS).clear()
  })

  it('makes the values stale if it is soft', async () => {
    const options = { staleWhileRevalidateMs: 5_000 }
    await rates.a.getOrSet('eur', () => 'old', options)
    await rates.b.clear({ soft: true })
    expect(await rates.a.getOrSet('eur', () => 'new', options)).toBe('old')
    await settled()
    expect(await rates.b.get('eur')).toBe('new')
  })

  it('refuses the value of a fill that began before it, in any process', async () => {
    const origin = new ScriptedOrigin<string>()
    const first = rates.a.getOrSet('eur', origin.factory)
    await settled()
    await rates.b.clear()
    origin.run(0).resolve('old')
    expect(await first).toBe('old')
    await settled()
    expect(transcript.take()).toContain('a: fill.fenced')
    expect(await rates.b.get('eur')).toBe(undefined)
  })

  it('keeps no room from tags, and refuses no value with 256 of them', async () => {
    const tags = Array.from({ length: 256 }, (_, i) => `t${i}`)
    await rates.a.getOrSet('eur', () => 1, { tags })
    await b.purge({ tag: 't255' })
    expect(await rates.a.get('eur')).toBe(undefined)
    await rates.a.getOrSet('eur', () => 1, { tags: () => tags })
    await rates.b.clear()
    expect(await rates.a.get('eur')).toBe(undefined)
  })

  it('covers confirmed values, and none that stampede.getOrSet stored', async () => {
    const options = { ...OPTIONS, keepMs: 60_000 }
    // An earlier version stored the values of a cache without its subject, as this call does.
    await a.getOrSet('rates:eur', () => 1, options)
    await rates.b.clear()
    expect(await rates.a.get('eur')).toBe(1)
    await clock.advance(10_000)
    await rates.a.getOrSet('eur', ({ notModified }) => notModified(), options)
    await rates.b.clear()
    expect(await rates.a.get('eur')).toBe(undefined)
  })

  it('needs no store', async () => {
    const alone = createStampede({ clock })
    const cache = alone.cache('rates', OPTIONS)
    await cache.set('eur', 1)
    await cache.clear()
    expect(await cache.get('eur')).toBe(undefined)
    await alone.close()
    await expect(cache.clear()).rejects.toMatchObject({ code: 'ERR_STAMPEDE_CLOSED' })
  })

  it('rejects wrong options and names, and if the store is unavailable', async () => {
    await expect(rates.a.clear({ hard: true } as object)).rejects.toThrow(/no such option/)
    await expect(a.purge({ cache: 'rates:eur' })).rejects.toThrow(
      /^purge\.cache: received "rates:eur"; pass the name only: \{ cache: 'rates' \}; to purge one /,
    )
    await expect(a.purge({ cache: ['a'] } as never)).rejects.toThrow(
      /^purge\.cache: received an array of 1; use a non-empty string: \{ cache: 'rates' \}$/,
    )
    stores.a.next('mark', refuse)
    await expect(rates.a.clear()).rejects.toThrow('the store is away')
  })
})
