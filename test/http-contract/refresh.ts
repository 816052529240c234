// What becomes of a stored answer when its refresh says something else.
import { expect, it } from 'vitest'
import type { Framework } from '../harness/apps.ts'
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
}
