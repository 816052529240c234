// Cases: a stored response whose refresh brings another result.
import type { IncomingMessage } from 'node:http'
import { isRevalidation } from '@stampede/node-http'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask } from '../requests.ts'
import type { CacheAdapter, Says } from './adapter.ts'
import { setUp, statusOf } from './bench.ts'

export function refreshCases(adapter: CacheAdapter): void {
  it.each([404, 403, 301, 501])(
    'sends a %d to the client, because it is no failure that a stale response may replace',
    async (status) => {
      const { clock, start } = setUp(adapter, (_seen, run) =>
        run === 1 ? {} : { status, headers: { location: '/elsewhere' } },
      )
      await using app = await start({ staleIfErrorMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(11_000)
      const answer = await ask(`${app.url}/a`)
      expect([answer.status, answer.body]).toEqual([status, 'run 2'])
    },
  )

  it.each([500, 502, 503, 504])(
    'keeps the stale response in place of a %d until the stale-if-error window is over',
    async (status) => {
      const { clock, start } = setUp(adapter, (_seen, run) => (run === 1 ? {} : { status }))
      await using app = await start({ staleIfErrorMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(69_000)
      const hidden = await ask(`${app.url}/a`)
      expect([hidden.status, hidden.body]).toEqual([200, 'run 1'])
      expect(statusOf(hidden)).toBe(`Stampede; hit; ttl=-59; detail=stale-if-error/${status}`)
      await clock.advance(2_000)
      const shown = await ask(`${app.url}/a`)
      expect([shown.status, shown.body]).toEqual([status, 'run 3'])
    },
  )

  it.each([404, 410])(
    'removes the page if the handler responds %d in the background',
    async (status) => {
      const { clock, happened, start } = setUp(adapter, (_seen, run) =>
        run === 1 ? {} : { status },
      )
      await using app = await start({ staleWhileRevalidateMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(11_000)
      expect((await ask(`${app.url}/a`)).body).toBe('run 1')
      await happened('fill.passed')
      const next = await ask(`${app.url}/a`)
      expect([next.status, next.body]).toEqual([status, 'run 3'])
    },
  )

  it.each([undefined, 'max-age=60'])(
    'does not replace a page by an empty 204 with Cache-Control: %s',
    async (control) => {
      const headers = control === undefined ? {} : { 'cache-control': control }
      const { clock, happened, start } = setUp(adapter, (_seen, run) =>
        run === 2 ? { status: 204, body: '', headers } : {},
      )
      await using app = await start({ staleWhileRevalidateMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(11_000)
      await ask(`${app.url}/a`)
      await happened('fill.passed')
      const next = await ask(`${app.url}/a`)
      expect([next.status, next.body]).toEqual([200, 'run 3'])
    },
  )

  it('stores an empty 204 with explicit freshness if no page was stored', async () => {
    const headers = { 'cache-control': 'max-age=5' }
    const { clock, happened, runs, start } = setUp(adapter, () => ({
      status: 204,
      headers,
      body: '',
    }))
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    for (const _round of [1, 2]) expect((await ask(`${app.url}/a`)).status).toBe(204)
    await clock.advance(6_000)
    await ask(`${app.url}/a`)
    await happened('fill.committed', 2)
    expect(statusOf(await ask(`${app.url}/a`))).toBe('Stampede; hit; ttl=5')
    expect(runs.count).toBe(2)
  })

  /** A page with an ETag, which has gone stale. */
  const tagged = (act: (run: number) => Says | undefined = () => undefined) =>
    setUp(adapter, ({ headers }, run) => {
      const asked = headers['if-none-match'] === '"1"'
      const own = { etag: '"1"', 'x-run': String(run) }
      return { ...(asked ? { status: 304, body: '' } : {}), headers: own, ...act(run) }
    })

  it('sends the ETag of the page to the handler, and serves the stored body after a 304', async () => {
    const { clock, seen, start } = tagged()
    await using app = await start()
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    const got = await ask(`${app.url}/a`, { headers: { range: 'bytes=0-2' } })
    expect([got.status, got.body, got.headers['x-run']]).toEqual([206, 'run', '2'])
    expect(statusOf(got)).toBe('Stampede; fwd=stale; fwd-status=304')
    expect(seen[1]?.headers['if-none-match']).toBe('"1"')
    const hit = await ask(`${app.url}/a`)
    expect([hit.body, hit.headers['x-run'], statusOf(hit)]).toEqual([
      'run 1',
      '2',
      'Stampede; hit; ttl=10',
    ])
  })

  it('sends the ETag of a stale page to the handler in the background as well', async () => {
    const { clock, seen, happened, start } = tagged()
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    expect((await ask(`${app.url}/a`)).body).toBe('run 1')
    await happened('fill.committed', 2)
    expect(seen[1]?.headers['if-none-match']).toBe('"1"')
    const hit = await ask(`${app.url}/a`)
    expect([hit.body, hit.headers['x-run'], statusOf(hit)]).toEqual([
      'run 1',
      '2',
      'Stampede; hit; ttl=10',
    ])
  })

  it("sends the ETag of the entry to the handler, and applies the client's condition to the result", async () => {
    const { clock, seen, start } = tagged()
    await using app = await start()
    for (const [sent, status, body] of [
      ['"0"', 200, 'run 1'],
      ['"1"', 304, ''],
    ] as const) {
      await ask(`${app.url}/a`)
      await clock.advance(11_000)
      const got = await ask(`${app.url}/a`, { headers: { 'if-none-match': sent } })
      expect([got.status, got.body]).toEqual([status, body])
      expect(seen.at(-1)?.headers['if-none-match']).toBe('"1"')
    }
    expect(seen).toHaveLength(3)
  })

  it('sends the full page after a 304 that the handler writes directly to the response', async () => {
    const { clock, start } = setUp(adapter, (_seen, run, res) => {
      if (run === 1) return { headers: { etag: '"1"' } }
      res.writeHead(304, { etag: '"1"' })
      res.end()
      return undefined
    })
    await using app = await start()
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    const got = await ask(`${app.url}/a`)
    expect([got.status, got.body]).toEqual([200, 'run 1'])
  })

  it('hides the conditions of the cache from middlewares in front of it', async () => {
    const shown: unknown[] = []
    const { clock, start } = setUp(adapter, (_seen, run) => ({ headers: { etag: `"${run}"` } }), {
      outside(res, next) {
        const { writeHead } = res
        const own = (...args: unknown[]) => {
          shown.push(res.req.headers['if-none-match'])
          return Reflect.apply(writeHead, res, args)
        }
        Object.assign(res, { writeHead: own })
        return next()
      },
    })
    await using app = await start()
    for (const sent of ['"x"', '"y"', '"z"']) {
      await ask(`${app.url}/a`, { headers: { 'if-none-match': sent } })
      await clock.advance(11_000)
    }
    expect(
      [...new Set(shown)].filter((tag) => tag !== undefined && !/[xyz]/.test(String(tag))),
    ).toEqual([])
  })

  it('does not use a 304 on which a middleware in front sets a cookie', async () => {
    let visits = 0
    const { clock, happened, start } = setUp(
      adapter,
      ({ headers }) => ({
        ...(headers['if-none-match'] ? { status: 304, body: '' } : {}),
        headers: { etag: '"1"' },
      }),
      {
        outside(res, next) {
          const { writeHead } = res
          const own = (...args: unknown[]) => {
            if (visits === 2) res.setHeader('set-cookie', 'session=2')
            return Reflect.apply(writeHead, res, args)
          }
          visits += 1
          Object.assign(res, { writeHead: own })
          return next()
        },
      },
    )
    await using app = await start()
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    const got = await ask(`${app.url}/a`)
    expect([got.status, got.body, got.headers['set-cookie']]).toEqual([200, 'run 1', ['session=2']])
    await happened('fill.passed')
    expect(statusOf(await ask(`${app.url}/a`))).toContain('fwd=uri-miss')
  })

  it('does not apply a private 304 to the entry, but sends its fields to the client', async () => {
    const { clock, start } = tagged((run) =>
      run === 2
        ? { headers: { etag: '"1"', 'cache-control': 'private', 'set-cookie': 'a=2' } }
        : undefined,
    )
    await using app = await start()
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    const got = await ask(`${app.url}/a`)
    expect([got.status, got.body, got.headers['set-cookie']]).toEqual([200, 'run 1', ['a=2']])
    expect(statusOf(got)).toBe('Stampede; fwd=stale; fwd-status=304; detail=private')
    expect((await ask(`${app.url}/a`)).headers).not.toHaveProperty('set-cookie')
  })

  /**
   * For 2.5 s after the page has gone stale, a stranger asks every 25 ms and a victim every 200 ms.
   * Returns the last body that the victim got.
   */
  const pinned = async (
    says: (isOdd: boolean, run: number) => Says | undefined,
    oddOf: (round: number) => string,
  ) => {
    const { clock, runs, stampede, start } = setUp(adapter, ({ headers }, run) =>
      run === 1 ? {} : says(headers['x-odd'] !== undefined, run),
    )
    await using app = await start({ ttlMs: 1_000, staleWhileRevalidateMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(1_000)
    let last = ''
    for (let round = 0; round < 100; round++) {
      await ask(`${app.url}/a`, { headers: { 'x-odd': oddOf(round) } })
      if (round % 8 === 5) last = (await ask(`${app.url}/a`)).body
      // A refresh goes on after its response.
      while (stampede.stats().active.flights > 0) await new Promise(setImmediate)
      await clock.advance(25)
    }
    return { last, runs: runs.count - 1 }
  }
  const digests: ReadonlyArray<readonly [string, (round: number) => string]> = [
    ['one odd header', () => 'x'],
    ['a new odd header each time', (round) => `x${round}`],
  ]
  for (const [which, oddOf] of digests) {
    it.each([429, 'an error'])(
      `renews the page although a stranger with ${which} keeps getting %s`,
      async (failure) => {
        const { last, runs } = await pinned((isOdd) => {
          if (isOdd && failure === 'an error') throw new Error('odd')
          return isOdd ? { status: Number(failure) } : {}
        }, oddOf)
        expect(last).not.toBe('run 1')
        expect(runs).toBeLessThanOrEqual(6)
      },
    )
  }

  it.each([429, 503])(
    'runs at most twice a second if the handler responds %d to all',
    async (status) => {
      const { last, runs } = await pinned(
        () => ({ status }),
        () => 'x',
      )
      expect(last).toBe('run 1')
      expect(runs).toBeLessThanOrEqual(6)
    },
  )

  /** The first run responds. Later runs do what `act` does. */
  const failing: ReadonlyArray<readonly [string, () => Says, string]> = [
    ['responds 503', () => ({ status: 503 }), 'the status was 503. The stale response is served'],
    ['responds 429', () => ({ status: 429 }), 'the status was 429. The stale response is served'],
    [
      'sets a cookie',
      () => ({ headers: { 'set-cookie': 'a=1' } }),
      'cannot be stored (set-cookie). The stored response is no longer used',
    ],
  ]
  it.each(failing)('warns once per path when the handler %s', async (_, act, why) => {
    using warnings = refreshWarnings()
    const { clock, happened, start } = setUp(adapter, (_seen, run) => (run === 1 ? {} : act()))
    await using app = await start({ staleWhileRevalidateMs: 600_000 })
    await ask(`${app.url}/a?secret=1`)
    for (const round of [1, 2]) {
      await clock.advance(11_000)
      await ask(`${app.url}/a?secret=1`)
      if (why.includes('503')) await happened('fill.failed', round)
      else await happened('fill.passed', round)
    }
    await expect.poll(() => warnings.texts).toHaveLength(1)
    expect(warnings.texts[0]).toMatch(/^GET \/a: a background refresh failed: /)
    expect(warnings.texts[0]).toContain(why)
  })

  it('does not warn if the page no longer exists', async () => {
    using warnings = refreshWarnings()
    const { clock, happened, start } = setUp(adapter, (_seen, run) =>
      run === 1 ? {} : { status: 404 },
    )
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    await ask(`${app.url}/a`)
    await happened('fill.passed')
    await new Promise((resolve) => setImmediate(resolve))
    expect(warnings.texts).toEqual([])
  })

  it('warns when the handler takes longer than originTimeoutMs', async () => {
    using warnings = refreshWarnings()
    const gate = createGate()
    const { clock, happened, runs, start } = setUp(adapter, async (_seen, run) => {
      if (run > 1) await gate.opened
      return {}
    })
    await using app = await start({ staleWhileRevalidateMs: 60_000, originTimeoutMs: 5_000 })
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    await ask(`${app.url}/a`)
    await runs.reached(2)
    await clock.advance(5_000)
    await happened('fill.failed')
    await expect.poll(() => warnings.texts).toHaveLength(1)
    expect(warnings.texts[0]).toContain('failed: it did not finish within originTimeoutMs (5000)')
    gate.open()
  })

  it('warns again after ten failures in a row', async () => {
    using warnings = refreshWarnings()
    const { clock, happened, start } = setUp(adapter, (_seen, run) =>
      run === 1 ? {} : { status: 503 },
    )
    await using app = await start({ staleWhileRevalidateMs: 600_000 })
    await ask(`${app.url}/a?token=1`)
    for (let failed = 1; failed <= 12; failed++) {
      await clock.advance(11_000)
      await ask(`${app.url}/a?token=1`)
      await happened('fill.failed', failed)
    }
    await expect.poll(() => warnings.texts).toHaveLength(2)
    expect(warnings.texts[1]).toBe(
      'GET /a: 10 background refreshes in a row failed: the status was 503. The stale response is ' +
        'served until its stale window ends. Fix the cause: after that window, callers get the error.',
    )
  })

  /** A rate limiter: two requests pass, the third is answered 429. */
  const limited = (skip: (req: IncomingMessage) => boolean) => {
    let count = 0
    return setUp(adapter, () => ({}), {
      outside(res, next) {
        if (skip(res.req) || ++count <= 2) return next()
        res.statusCode = 429
        res.end()
        return undefined
      },
    })
  }

  it.runIf(adapter.refreshesOutside)(
    'warns of a rate limiter in front that refuses it, and keeps the stale response',
    async () => {
      using warnings = refreshWarnings()
      const { clock, happened, runs, start } = limited(() => false)
      await using app = await start({ staleWhileRevalidateMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(11_000)
      expect((await ask(`${app.url}/a`)).body).toBe('run 1')
      await happened('fill.passed')
      await expect.poll(() => warnings.texts).toHaveLength(1)
      expect(warnings.texts[0]).toContain(
        'a layer in front of the cache responded with 429; ' +
          'let that layer pass requests for which isRevalidation(req) is true. The stale response',
      )
      expect(runs.count).toBe(1)
    },
  )

  it('passes a rate limiter in front that skips requests with isRevalidation()', async () => {
    using warnings = refreshWarnings()
    const { clock, happened, start } = limited(isRevalidation)
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    await ask(`${app.url}/a`)
    await happened('fill.committed', 2)
    expect((await ask(`${app.url}/a`)).status).toBe(429)
    expect(warnings.texts).toEqual([])
  })

  it.runIf(adapter.refreshesOutside)(
    'warns of a middleware in front that redirects it, and keeps the stale response',
    async () => {
      using warnings = refreshWarnings()
      const { clock, happened, start } = setUp(adapter, () => ({}), {
        outside(res, next) {
          if (!isRevalidation(res.req)) return next()
          res.statusCode = 302
          res.setHeader('location', '/login')
          res.end()
          return undefined
        },
      })
      await using app = await start({ staleWhileRevalidateMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(11_000)
      await ask(`${app.url}/a`)
      await happened('fill.failed')
      expect(statusOf(await ask(`${app.url}/a`))).toContain('; hit')
      await expect.poll(() => warnings.texts).toHaveLength(1)
    },
  )
}

function refreshWarnings(): Disposable & { readonly texts: readonly string[] } {
  const texts: string[] = []
  const onWarning = ({ name, message }: Error) => {
    if (name === 'StampedeRefreshWarning') texts.push(message)
  }
  process.on('warning', onWarning)
  return { texts, [Symbol.dispose]: () => void process.off('warning', onWarning) }
}
