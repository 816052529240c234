// Cases with a large volume: many queries, keys and requests on one socket. `npm test` runs fewer
// of them than `npm run test:soak` (test/long/volume.test.ts).
import { expect, it, vi } from 'vitest'
import type { CacheAdapter } from './adapter.ts'
import { get, pipelined, setUp } from './bench.ts'

export interface Volume {
  /** Number of random queries of one client. A twentieth of its requests are for the same page. */
  readonly queries: number
  /** Requests written at once on one socket. */
  readonly requests: number
  /** Keys filled together. Their lifetimes are spread over 100 seconds. */
  readonly keys: number
}

export function volumeCases(adapter: CacheAdapter, { queries, requests, keys }: Volume): void {
  it('keeps its memory limit when a client makes up queries, and keeps the page that is used', async () => {
    // Room for one piece of the socket's data, which is two thirds of the queries, and not for all.
    const maxBytes = queries * 800
    const { runs, stampede, start } = setUp(adapter, undefined, {
      l1: { maxBytes },
    })
    await using app = await start()
    const asked = Array.from({ length: queries }, (_, i) =>
      i % 20 === 0 ? get('/hot') : get(`/a?made-up=${i}`),
    )
    const answers = await pipelined(app.url, [...asked, get('/hot', 'Connection: close')])
    const hot = answers.filter((_, i) => i % 20 === 0).map(({ body }) => body)
    expect(new Set(hot)).toEqual(new Set(['run 1']))
    expect(stampede.stats().l1.bytes).toBeLessThanOrEqual(maxBytes)
    expect(stampede.stats().l1.entries).toBeLessThan(runs.count)
    expect(runs.count).toBe(1 + queries - queries / 20)
  })

  it('serves thousands of pipelined requests on one socket without a listener leak', async () => {
    const warned = vi.fn()
    process.on('warning', warned)
    const { runs, start } = setUp(adapter, ({ path }) => ({ body: `é${path}` }))
    await using app = await start()
    const paths = Array.from({ length: requests }, (_, i) =>
      i % 3 === 0 ? '/a' : `/${'b'.repeat(i % 7)}`,
    )
    const answers = await pipelined(app.url, [
      ...paths.map((path) => get(path)),
      get('/a', 'Connection: close'),
    ])
    expect(answers.map(({ body }) => body)).toEqual(
      [...paths, '/a'].map((path) => Buffer.from(`é${path}`).toString('latin1')),
    )
    expect(runs.count).toBe(new Set(paths).size)
    process.off('warning', warned)
    expect(warned).not.toHaveBeenCalled()
  })

  it('spreads the expiry of keys that were filled together', async () => {
    const { start } = setUp(adapter, undefined, { random: Math.random })
    // The jitter is 100 s, a tenth of the lifetime. `ttl` counts in seconds.
    await using app = await start({ ttlMs: 1_000_000, jitter: 0.1 })
    const paths = Array.from({ length: keys }, (_, i) => get(`/${i}`))
    const closing = get('/closing', 'Connection: close')
    await pipelined(app.url, [...paths, closing])
    const hits = await pipelined(app.url, [...paths, closing])
    const perSecond = new Map<string, number>()
    for (const { headers } of hits.slice(0, keys)) {
      const [, ttl = 'none'] = /hit; ttl=(\d+)/.exec(headers['cache-status'] ?? '') ?? []
      perSecond.set(ttl, (perSecond.get(ttl) ?? 0) + 1)
    }
    expect(perSecond.has('none')).toBe(false)
    // 300 random keys fall into about 95 of the seconds, and at most a dozen into one.
    expect(perSecond.size).toBeGreaterThan(80)
    expect(Math.max(...perSecond.values())).toBeLessThan(keys / 25 + 10)
  })
}
