// Cases: the preset `strict` beside the defaults, for each row of docs/evidence/conformance.md.
import { strict } from '@stampede/core'
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter } from './adapter.ts'
import { setUp, statusOf } from './bench.ts'

const PRESETS = [
  ['with', strict],
  ['without', {}],
] as const

export function strictCases(adapter: CacheAdapter): void {
  it.each([
    ['no-store', 'max-age=60', 'detail=no-store', 'ttl=60'],
    ['private', 'max-age=60', 'detail=private', 'ttl=60'],
    ['max-age=0', 'max-age=60', 'detail=expired', 'ttl=60'],
    ['max-age=5', 'max-age=60', 'ttl=5', 'ttl=60'],
    ['max-age=60', 'no-store', 'ttl=60', 'detail=no-store'],
    ['max-age=60', 'max-age=5', 'ttl=60', 'ttl=5'],
    ['max-age="60"', 'max-age=5', 'detail=expired', 'ttl=5'],
    ['max-age=(', 'max-age=5', 'ttl=5', 'ttl=5'],
  ])(
    'obeys CDN-Cache-Control: %s before Cache-Control: %s only with the strict preset',
    async (targeted, control, strictly, byDefault) => {
      const { start } = setUp(adapter, () => ({
        headers: { 'cdn-cache-control': targeted, 'cache-control': control },
      }))
      for (const [which, options] of PRESETS) {
        await using app = await start({ ttlMs: undefined, ...options })
        const first = await ask(`${app.url}/${which}`)
        const second = await ask(`${app.url}/${which}`)
        const said = `${statusOf(first)}, ${statusOf(second)}`
        expect(said, which).toContain(which === 'with' ? strictly : byDefault)
        expect(second.headers['cdn-cache-control']).toBe(targeted)
      }
    },
  )

  it.each([
    ['no-cache', 'fwd=request'],
    ['max-age=0', 'fwd=request'],
    ['max-age=9', 'fwd=request'],
    ['min-fresh=51', 'fwd=request'],
    ['max-age=10, min-fresh=50', 'hit; ttl=50'],
    ['only-if-cached', 'hit; ttl=50'],
    ['no-store', 'hit; ttl=50'],
  ])(
    'obeys %s of a request for a response that is 10 s old only with the strict preset',
    async (asked, strictly) => {
      const { clock, start } = setUp(adapter, () => ({
        headers: { 'cache-control': 'max-age=60' },
      }))
      for (const [which, options] of PRESETS) {
        await using app = await start({ ttlMs: undefined, ...options })
        await ask(`${app.url}/${which}`)
        await clock.advance(10_000)
        const headers = { 'cache-control': asked }
        const answer = await ask(`${app.url}/${which}`, { headers })
        const expected = which === 'with' ? strictly : 'hit; ttl=50'
        expect(statusOf(answer), which).toBe(`Stampede; ${expected}`)
      }
    },
  )

  it('obeys only-if-cached and no-store of a request only with the strict preset', async () => {
    const { runs, start } = setUp(adapter, () => ({ headers: { 'cache-control': 'max-age=60' } }))
    for (const [which, options] of PRESETS) {
      await using app = await start({ ttlMs: undefined, ...options })
      const asking = (control: string, path: string) =>
        ask(`${app.url}/${which}/${path}`, { headers: { 'cache-control': control } })
      const before = runs.count
      const cached = await asking('only-if-cached', 'a')
      expect([cached.status, runs.count - before]).toEqual(which === 'with' ? [504, 0] : [200, 1])
      await asking('no-store', 'b')
      const next = statusOf(await ask(`${app.url}/${which}/b`))
      expect(next).toContain(which === 'with' ? 'fwd=uri-miss' : 'hit')
    }
  })
}
