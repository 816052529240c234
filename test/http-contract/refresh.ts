// What becomes of a stored answer when its refresh says something else.
import { expect, it } from 'vitest'
import type { Framework, Says } from '../harness/apps.ts'
import { ask } from '../harness/load.ts'
import { setUp, statusOf } from './bench.ts'

export function refreshCases(framework: Framework): void {
  it.each([404, 403, 301])(
    'passes a %d on, which is no failure that a stale answer may hide',
    async (status) => {
      const { clock, start } = setUp(framework, (_seen, run) =>
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
    'hides a %d behind a stale answer, until its window is over',
    async (status) => {
      const { clock, start } = setUp(framework, (_seen, run) => (run === 1 ? {} : { status }))
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

  it.each([404, 410])('forgets a page whose refresh behind finds a %d', async (status) => {
    const { clock, happened, start } = setUp(framework, (_seen, run) =>
      run === 1 ? {} : { status },
    )
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    expect((await ask(`${app.url}/a`)).body).toBe('run 1')
    await happened('fill.passed')
    const next = await ask(`${app.url}/a`)
    expect([next.status, next.body]).toEqual([status, 'run 3'])
  })

  it.each([undefined, 'max-age=60'])(
    'does not keep an empty 204 in the place of a page: %s',
    async (control) => {
      const headers = control === undefined ? {} : { 'cache-control': control }
      const { clock, happened, start } = setUp(framework, (_seen, run) =>
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

  it('keeps an empty 204 that says how long, where there was no page', async () => {
    const headers = { 'cache-control': 'max-age=5' }
    const { clock, happened, runs, start } = setUp(framework, () => ({
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

  /** A page that knows its tag, on a clock at which it has gone stale. */
  const tagged = (act: (run: number) => Says | undefined = () => undefined) =>
    setUp(framework, ({ headers }, run) => {
      const asked = headers['if-none-match'] === '"1"'
      const own = { etag: '"1"', 'x-run': String(run) }
      return { ...(asked ? { status: 304, body: '' } : {}), headers: own, ...act(run) }
    })

  it('asks the app whether a page is still so, and gives what is stored when it says 304', async () => {
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

  it('asks so behind a stale page too', async () => {
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

  it('asks with its own condition in the place of the client’s, and answers that by itself', async () => {
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

  it('gives the whole page for a 304 that the app writes itself, past its framework', async () => {
    const { clock, start } = setUp(framework, (_seen, run, res) => {
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

  it('shows its own conditions to nobody in front of it', async () => {
    const shown: unknown[] = []
    const { clock, start } = setUp(framework, (_seen, run) => ({ headers: { etag: `"${run}"` } }), {
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

  it('keeps nothing of a 304 on which a layer in front of it sets a cookie', async () => {
    let visits = 0
    const { clock, happened, start } = setUp(
      framework,
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
    expect(statusOf(await ask(`${app.url}/a`))).toContain('detail=hit-for-pass')
  })

  it('keeps nothing of a 304 that is private, and gives it to its client', async () => {
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
}
