// Cases: the freshness of a response, from its own fields and from the options.
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter, Says } from './adapter.ts'
import { setUp, statusOf } from './bench.ts'

const says = (control: string, more: Record<string, string> = {}): Says => ({
  headers: { 'cache-control': control, ...more },
})

/** A handler whose first body ends when the test says so. Later runs end at once. */
function slowBody(adapter: CacheAdapter, headers: Record<string, string>) {
  const body = new PassThrough()
  body.write('begun')
  const bench = setUp(adapter, (_seen, run) => (run === 1 ? { headers, body } : { headers }))
  return { ...bench, body }
}

/** Resolves when the head has arrived. */
function headOf(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    httpRequest(url, { agent: false }, resolve).on('error', reject).end()
  })
}

export function freshnessCases(adapter: CacheAdapter): void {
  it.each(['max-age=10, must-revalidate', 'max-age=10, proxy-revalidate', 's-maxage=10'])(
    'makes the next client wait for a new response, and serves no stale one, with %s',
    async (control) => {
      const { clock, runs, start } = setUp(adapter, () => says(control))
      await using app = await start({ staleWhileRevalidateMs: 60_000, staleIfErrorMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(9_000)
      expect((await ask(`${app.url}/a`)).body).toBe('run 1')
      await clock.advance(2_000)
      const next = await ask(`${app.url}/a`)
      expect(next.body).toBe('run 2')
      expect(statusOf(next)).toBe('Stampede; fwd=uri-miss; fwd-status=200; stored')
      expect(runs.count).toBe(2)
    },
  )

  it('prefers s-maxage to max-age, whether s-maxage is longer or shorter', async () => {
    const { runs, start } = setUp(adapter, ({ path }) =>
      says(path === '/shared' ? 'max-age=0, s-maxage=60' : 'max-age=60, s-maxage=0'),
    )
    await using app = await start({ ttlMs: undefined })
    await ask(`${app.url}/shared`)
    expect(statusOf(await ask(`${app.url}/shared`))).toBe('Stampede; hit; ttl=60')
    const own = await ask(`${app.url}/own`)
    expect(statusOf(own)).toBe('Stampede; fwd=uri-miss; fwd-status=200; detail=expired')
    expect((await ask(`${app.url}/own`)).body).toBe('run 3')
    expect(runs.count).toBe(3)
  })

  it.each([{ expires: '0' }, { expires: 'Thu, 01 Jan 1970 00:00:00 GMT' }])(
    'does not store a response with %o',
    async (headers) => {
      const { start } = setUp(adapter, () => ({ headers }))
      await using app = await start()
      expect(statusOf(await ask(`${app.url}/a`))).toContain('detail=expired')
      expect((await ask(`${app.url}/a`)).body).toBe('run 2')
    },
  )

  it.each(['99999999999', '99999999999999999999999999'])(
    'treats a max-age of %s as a very long time, without an overflow',
    async (seconds) => {
      const { clock, runs, start } = setUp(adapter, () => says(`max-age=${seconds}`))
      await using app = await start({ ttlMs: undefined })
      await ask(`${app.url}/a`)
      await clock.advance(300 * 24 * 3_600_000)
      const hit = await ask(`${app.url}/a`)
      expect([hit.body, hit.headers.age]).toEqual(['run 1', String(300 * 24 * 3_600)])
      expect(Number(/ttl=(\d+)/.exec(statusOf(hit))?.[1])).toBeGreaterThan(0)
      expect(runs.count).toBe(1)
    },
  )

  it('adds the Age field of an upstream cache to the age of the response', async () => {
    const { clock, start } = setUp(adapter, () => says('max-age=60', { age: '50' }))
    await using app = await start({ ttlMs: undefined })
    await ask(`${app.url}/a`)
    await clock.advance(9_000)
    const hit = await ask(`${app.url}/a`)
    expect([hit.body, hit.headers.age, statusOf(hit)]).toEqual([
      'run 1',
      '59',
      'Stampede; hit; ttl=1',
    ])
    await clock.advance(1_500)
    expect((await ask(`${app.url}/a`)).body).toBe('run 2')
  })

  it('counts the age of an old response from its Date field', async () => {
    const { clock, start } = setUp(adapter, ({ path }) => {
      const at = (seconds: number) => new Date(clock.wallNow() + seconds * 1000).toUTCString()
      const date = at(-50)
      return path === '/control'
        ? says('max-age=60', { date })
        : { headers: { date, expires: at(10) } }
    })
    await using app = await start({ ttlMs: undefined })
    for (const path of ['/control', '/expires']) {
      const { body } = await ask(app.url + path)
      await clock.advance(9_000)
      const hit = await ask(app.url + path)
      expect([hit.body, hit.headers.age, statusOf(hit)]).toEqual([
        body,
        '59',
        'Stampede; hit; ttl=1',
      ])
      await clock.advance(1_500)
      expect((await ask(app.url + path)).body).not.toBe(body)
    }
  })

  it.each([
    ['max-age', { 'cache-control': 'max-age=4' }, undefined],
    ['ttlMs', {}, 4_000],
  ] as const)(
    'counts Age and %s from the arrival of the head, even if the body takes long',
    async (_what, headers, ttlMs) => {
      const { clock, runs, body, happened, start } = slowBody(adapter, headers)
      await using app = await start({ ttlMs })
      const leader = await headOf(`${app.url}/a`)
      await clock.advance(3_000)
      body.end(' and ended')
      await leader.toArray()
      await happened('fill.committed')
      const hit = await ask(`${app.url}/a`)
      expect([hit.body, hit.headers.age, statusOf(hit)]).toEqual([
        'begun and ended',
        '3',
        'Stampede; hit; ttl=1',
      ])
      await clock.advance(1_000)
      expect((await ask(`${app.url}/a`)).body).toBe('run 2')
      expect(runs.count).toBe(2)
    },
  )

  it('does not store a response that expires while its body arrives, but sends it to waiters', async () => {
    const { clock, body, arrivals, happened, start } = slowBody(adapter, {
      'cache-control': 'max-age=2',
    })
    await using app = await start({ ttlMs: undefined })
    const leader = await headOf(`${app.url}/a`)
    const waiter = ask(`${app.url}/a`)
    await arrivals.reached(2)
    await clock.advance(3_000)
    body.end()
    await leader.toArray()
    expect((await waiter).body).toBe('begun')
    expect((await waiter).headers.age).toBe('3')
    await happened('fill.passed')
    const next = await ask(`${app.url}/a`)
    expect([next.body, statusOf(next)]).toEqual([
      'run 2',
      'Stampede; fwd=uri-miss; fwd-status=200; stored',
    ])
    expect(statusOf(await ask(`${app.url}/a`))).toBe('Stampede; hit; ttl=2')
  })

  it('starts the stale window at the end of freshness, even if the body still arrives', async () => {
    const { clock, body, happened, start } = slowBody(adapter, {
      'cache-control': 'max-age=2, stale-while-revalidate=4',
    })
    await using app = await start({ ttlMs: undefined })
    const leader = await headOf(`${app.url}/a`)
    await clock.advance(3_000)
    body.end()
    await leader.toArray()
    await happened('fill.committed')
    const stale = await ask(`${app.url}/a`)
    expect([stale.body, stale.headers.age]).toEqual(['begun', '3'])
    expect(statusOf(stale)).toMatch(/^Stampede; hit; ttl=-?[01]$/)
    await happened('fill.committed', 2)
    const refreshed = await ask(`${app.url}/a`)
    expect([refreshed.body, statusOf(refreshed)]).toEqual(['run 2', 'Stampede; hit; ttl=2'])
  })
}
