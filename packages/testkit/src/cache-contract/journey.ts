// Cases: a request through the whole journey, from the miss to the refresh.
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask } from '../requests.ts'
import type { CacheAdapter, Says } from './adapter.ts'
import { setUp, statusOf } from './bench.ts'

export function journeyCases(adapter: CacheAdapter): void {
  it('runs the handler once for concurrent requests', async () => {
    const gate = createGate()
    const { seen: runs, start } = setUp(adapter, async () => {
      await gate.opened
      return { body: 'shared' }
    })
    await using app = await start()
    const asked = Array.from({ length: 20 }, () => ask(`${app.url}/a`))
    await expect.poll(() => runs.length).toBe(1)
    gate.open()
    const answers = await Promise.all(asked)
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['shared']))
    expect(runs).toHaveLength(1)
    // A request that arrived after the gate opened is a hit.
    expect(answers.filter((each) => /collapsed|; hit/.test(statusOf(each)))).toHaveLength(19)
  })

  it('serves a stale response at once, and refreshes it in the background through the whole app', async () => {
    const { clock, seen: runs, start } = setUp(adapter)
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    await ask(`${app.url}/a?x=1`)
    await clock.advance(12_000)
    const stale = await ask(`${app.url}/a?x=1`)
    expect(stale.body).toBe('run 1')
    expect(statusOf(stale)).toBe('Stampede; hit; ttl=-2')
    expect(stale.headers.age).toBe('12')
    await expect.poll(() => runs.length).toBe(2)
    expect(runs[1]).toMatchObject({ url: '/a?x=1', query: 'x=1' })
    await expect.poll(async () => (await ask(`${app.url}/a?x=1`)).body).toBe('run 2')
    expect(runs).toHaveLength(2)
  })

  it('makes the client of a stale response wait for the refresh if revalidate is foreground', async () => {
    const { clock, seen: runs, start } = setUp(adapter)
    await using app = await start({ staleWhileRevalidateMs: 60_000, revalidate: 'foreground' })
    await ask(`${app.url}/a`)
    await clock.advance(12_000)
    const answer = await ask(`${app.url}/a`)
    expect(answer.body).toBe('run 2')
    expect(statusOf(answer)).toBe('Stampede; fwd=stale; fwd-status=200; stored')
    expect(runs).toHaveLength(2)
  })

  it('serves a stale response in place of a 503, but not in place of a 404', async () => {
    const { clock, start } = setUp(adapter, (_seen, run) => ({
      status: [200, 503, 404][run - 1] ?? 200,
    }))
    await using app = await start({ staleIfErrorMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(12_000)
    const covered = await ask(`${app.url}/a`)
    expect([covered.status, covered.body]).toEqual([200, 'run 1'])
    expect(statusOf(covered)).toBe('Stampede; hit; ttl=-2; detail=stale-if-error/503')
    await clock.advance(2_000)
    const gone = await ask(`${app.url}/a`)
    expect([gone.status, gone.body]).toEqual([404, 'run 3'])
  })

  it.each([
    [{ 'set-cookie': 'a=1' }, 'set-cookie'],
    [{ 'cache-control': 'private="x"' }, 'private'],
    [{ 'cache-control': 'max-age=60, NO-STORE' }, 'no-store'],
    [{ vary: 'Accept, *' }, 'vary-star'],
    [{ 'access-control-allow-origin': 'https://a.example' }, 'cors-origin'],
  ] as const)('stores no response with %o', async (headers, reason) => {
    const { seen: runs, start } = setUp(adapter, () => ({ headers }))
    await using app = await start()
    const first = await ask(`${app.url}/a`)
    expect(statusOf(first)).toBe(`Stampede; fwd=uri-miss; fwd-status=200; detail=${reason}`)
    const second = await ask(`${app.url}/a`)
    expect(second.body).toBe('run 2')
    expect(statusOf(second)).toBe(statusOf(first))
    expect(runs).toHaveLength(2)
  })

  it.each([429, 401, 400])(
    'keeps the stored page for other clients after a refresh ended with a %d',
    async (refusal) => {
      const {
        clock,
        seen: runs,
        start,
      } = setUp(adapter, (_seen, run) => ({ status: run === 2 ? refusal : 200 }))
      await using app = await start({ staleWhileRevalidateMs: 60_000 })
      await ask(`${app.url}/a`)
      await clock.advance(12_000)
      // Its background refresh is refused. The good response stays, and is refreshed after the
      // back-off.
      expect((await ask(`${app.url}/a`)).body).toBe('run 1')
      await expect.poll(() => runs.length).toBe(2)
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(`${app.url}/a`)))
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['run 1']))
      expect(runs).toHaveLength(2)
      await clock.advance(1_000)
      await ask(`${app.url}/a`)
      await expect.poll(async () => (await ask(`${app.url}/a`)).body).toBe('run 3')
    },
  )

  it('does not store an event stream, so that no request waits for its end', async () => {
    const { seen: runs, start } = setUp(adapter, () => ({
      headers: { 'content-type': 'text/event-stream' },
    }))
    await using app = await start()
    const answers = await Promise.all([ask(`${app.url}/a`), ask(`${app.url}/a`)])
    expect(answers.map(({ body }) => body).sort()).toEqual(['run 1', 'run 2'])
    expect(runs).toHaveLength(2)
  })

  it.each([
    ['POST', {}, 'Stampede; fwd=method'],
    ['GET', { cookie: 'a=1' }, 'Stampede; fwd=bypass; detail=cookie'],
    ['GET', { authorization: 'Basic x' }, 'Stampede; fwd=bypass; detail=authorization'],
    ['GET', { 'if-match': '"x"' }, 'Stampede; fwd=bypass; detail=precondition'],
  ] as const)(
    'forwards a %s request with %o to the handler without storing the response',
    async (method, headers, expected) => {
      const { seen: runs, start } = setUp(adapter)
      await using app = await start()
      for (const run of [1, 2]) {
        const answer = await ask(`${app.url}/a`, { method, headers })
        expect([answer.body, statusOf(answer)]).toEqual([`run ${run}`, expected])
      }
      expect(runs).toHaveLength(2)
    },
  )

  it('uses host, path and query as the key, for any order of the parameters', async () => {
    const { seen: runs, start } = setUp(adapter)
    await using app = await start()
    await ask(`${app.url}/a?x=1&y=2`)
    expect((await ask(`${app.url}/a?y=2&x=1`)).body).toBe('run 1')
    expect((await ask(`${app.url}/A?x=1&y=2`)).body).toBe('run 2')
    expect((await ask(`${app.url}/a?x=1&y=3`)).body).toBe('run 3')
    const other = await ask(`${app.url}/a?x=1&y=2`, { headers: { host: 'other.example' } })
    expect(other.body).toBe('run 4')
    expect(runs).toHaveLength(4)
  })

  it('stores one response for each value of the fields in Vary', async () => {
    const { seen: runs, start } = setUp(adapter, (seen) => ({
      headers: { vary: 'X-Lang' },
      body: `in ${seen.headers['x-lang'] ?? 'none'}`,
    }))
    await using app = await start()
    const lang = (value: string) => ask(`${app.url}/a`, { headers: { 'x-lang': value } })
    for (const _ of [1, 2]) {
      expect((await lang('de')).body).toBe('in de')
      expect((await lang('fr')).body).toBe('in fr')
      expect((await ask(`${app.url}/a`)).body).toBe('in none')
    }
    expect(runs).toHaveLength(3)
  })

  it('serves HEAD from the entry of a GET, and stores nothing for a HEAD', async () => {
    const { seen: runs, start } = setUp(adapter)
    await using app = await start()
    await ask(`${app.url}/a`, { method: 'HEAD' })
    expect((await ask(`${app.url}/a`)).body).toBe('run 2')
    const head = await ask(`${app.url}/a`, { method: 'HEAD' })
    expect(statusOf(head)).toContain('hit')
    expect([head.status, head.body]).toEqual([200, ''])
    expect(runs).toHaveLength(2)
  })

  it('hides conditions and ranges from the handler of a miss, and applies them to the entry', async () => {
    const { seen: runs, start } = setUp(adapter, () => ({ headers: { etag: '"v1"' } }))
    await using app = await start()
    const headers = { 'if-none-match': '"v0"', range: 'bytes=0-0' }
    expect(await ask(`${app.url}/a`, { headers })).toMatchObject({ status: 206, body: 'r' })
    expect(runs[0]?.headers).not.toHaveProperty('if-none-match')
    expect(runs[0]?.headers).not.toHaveProperty('range')
    const matched = await ask(`${app.url}/a`, { headers: { 'if-none-match': 'W/"v1", "v2"' } })
    expect([matched.status, matched.body]).toEqual([304, ''])
    expect(runs).toHaveLength(1)
  })

  it('obeys Stampede-Cache-Control, and removes the field from every response', async () => {
    const {
      clock,
      seen: runs,
      start,
    } = setUp(adapter, (_seen, run) => ({
      status: run === 4 ? 503 : 200,
      headers: {
        'cache-control': 'private',
        'Stampede-Cache-Control': 'max-age=5, stale-if-error=9',
      },
    }))
    await using app = await start({ invalidateOn: 'never' })
    const seen = [await ask(`${app.url}/a`), await ask(`${app.url}/a`)]
    expect(seen.map(statusOf)).toEqual([
      'Stampede; fwd=uri-miss; fwd-status=200; stored',
      'Stampede; hit; ttl=5',
    ])
    seen.push(await ask(`${app.url}/a`, { method: 'POST' }))
    seen.push(await ask(`${app.url}/a`, { headers: { cookie: 'a=1' } }))
    await clock.advance(6_000)
    seen.push(await ask(`${app.url}/a`))
    expect(seen.at(-1)?.body).toBe('run 1')
    expect(runs).toHaveLength(4)
    for (const { headers } of seen) {
      expect(headers).not.toHaveProperty('stampede-cache-control')
      expect(headers['cache-control']).toBe('private')
    }
  })

  it('obeys CDN-Cache-Control only if targetedFields names the field, and sends it on', async () => {
    const headers = { 'cache-control': 'no-store', 'CDN-Cache-Control': 'max-age=5' }
    const { seen: runs, start } = setUp(adapter, () => ({ headers }))
    await using deaf = await start()
    await using told = await start({ targetedFields: ['CDN-Cache-Control'] })
    expect(statusOf(await ask(`${deaf.url}/a`))).toContain('detail=no-store')
    for (const _ of [1, 2]) {
      const answer = await ask(`${told.url}/b`)
      expect(answer.headers['cdn-cache-control']).toBe('max-age=5')
      expect(answer.body).toBe('run 2')
    }
    expect(runs).toHaveLength(2)
  })

  it('sends ranges of an entry that it filled without a range', async () => {
    const { seen: runs, start } = setUp(adapter, () => ({
      headers: { etag: '"e"' },
      body: '0123456789',
    }))
    await using app = await start()
    const get = (range: string, more = {}) => ask(`${app.url}/a`, { headers: { range, ...more } })
    expect(await get('bytes=0-1')).toMatchObject({ status: 206, body: '01' })
    const cut = await get('bytes=3-5')
    expect(cut).toMatchObject({ status: 206, body: '345' })
    expect(cut.headers).toMatchObject({
      'content-range': 'bytes 3-5/10',
      'content-length': '3',
      'cache-control': 'no-transform',
      etag: '"e"',
      age: '0',
    })
    const beyond = await get('bytes=10-')
    expect([beyond.status, beyond.headers['content-range']]).toEqual([416, 'bytes */10'])
    expect(await get('bytes=0-1,3-4')).toMatchObject({ status: 200, body: '0123456789' })
    expect(await get('bytes=0-1', { 'if-range': '"old"' })).toMatchObject({ status: 200 })
    expect(await get('bytes=0-1', { 'if-range': '"e"' })).toMatchObject({ status: 206, body: '01' })
    expect(runs).toHaveLength(1)
  })

  it('adds an ETag to an entry, which stays the same after a refresh without a change', async () => {
    const { clock, seen: runs, start } = setUp(adapter, () => ({ body: 'the same' }))
    await using app = await start()
    const miss = await ask(`${app.url}/a`)
    const { etag } = miss.headers
    expect(etag).toMatch(/^W\/"[\w-]+"$/)
    const headers = { 'if-none-match': String(etag) }
    expect(await ask(`${app.url}/a`, { headers })).toMatchObject({ status: 304, body: '' })
    await clock.advance(11_000)
    expect((await ask(`${app.url}/a`, { headers })).headers).toMatchObject({ etag })
    expect(await ask(`${app.url}/a`, { headers })).toMatchObject({ status: 304, body: '' })
    expect(runs).toHaveLength(2)
  })

  it('obeys Cache-Control of a request only if the option requestDirectives is respect', async () => {
    const { clock, seen: runs, start } = setUp(adapter)
    await using deaf = await start()
    await using app = await start({ requestDirectives: 'respect' })
    const get = (url: string, value: string) =>
      ask(`${url}/a`, { headers: { 'cache-control': value } })
    expect((await get(app.url, 'only-if-cached')).status).toBe(504)
    expect((await get(app.url, 'no-store')).body).toBe('run 1')
    expect((await get(app.url, 'max-age=0')).body).toBe('run 2')
    expect((await get(app.url, 'only-if-cached')).body).toBe('run 2')
    await clock.advance(1_000)
    const reloaded = await get(app.url, 'no-cache')
    expect([reloaded.body, statusOf(reloaded)]).toEqual(['run 3', 'Stampede; fwd=request'])
    expect((await get(app.url, 'max-age=1')).body).toBe('run 2')
    await ask(`${deaf.url}/a`)
    expect((await get(deaf.url, 'no-cache, max-age=0, no-store')).body).toBe('run 4')
    expect(runs).toHaveLength(4)
  })

  it('does not store a response larger than maxBodyBytes, but sends it in full', async () => {
    const big = 'x'.repeat(5_000)
    const { seen: runs, start } = setUp(adapter, () => ({ body: big }))
    await using app = await start({ maxBodyBytes: 4_999 })
    for (const _ of [1, 2]) expect((await ask(`${app.url}/a`)).body).toBe(big)
    expect(runs).toHaveLength(2)
  })

  it.each<[what: string, says: Says]>([
    ['a string', { body: 'é'.repeat(5) }],
    ['a Buffer', { body: Buffer.from('0123456789') }],
    ['bytes with an ETag', { body: Buffer.from('0123456789'), headers: { etag: '"a"' } }],
    ['a string with its length', { body: '0123456789', headers: { 'content-length': '10' } }],
  ])('says too-large, not stored, of %s above maxBodyBytes', async (_, says) => {
    const { start } = setUp(adapter, () => says)
    await using app = await start({ maxBodyBytes: 9 })
    const first = await ask(`${app.url}/a`)
    expect(statusOf(first)).toBe('Stampede; fwd=uri-miss; fwd-status=200; detail=too-large')
    expect(Buffer.byteLength(first.body)).toBe(10)
    await using exact = await start({ maxBodyBytes: 10 })
    expect(statusOf(await ask(`${exact.url}/a`))).toMatch(/; stored$/)
  })

  it('throws for a mistyped option at creation', async () => {
    // Some frameworks create their parts asynchronously.
    await expect(async () => adapter.start({ ttl: 5 } as object, () => ({}))).rejects.toThrow(
      'stampedeCache.ttl: received 5; there is no such option; did you mean ttlMs?',
    )
  })
}
