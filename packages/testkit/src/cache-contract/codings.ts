// Cases: stored responses that are sent compressed to clients which accept that.
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { eventually } from '../eventually.ts'
import type { CacheAdapter } from './adapter.ts'
import { setUp, whole } from './bench.ts'

const TEXT = 'one line as the other\n'.repeat(200)
const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync } as const

export function codingCases(adapter: CacheAdapter): void {
  const page = { body: TEXT, headers: { 'content-type': 'text/plain', etag: '"v1"' } }

  it('are made once, after the first response, for clients that accept their coding', async () => {
    const { runs, start } = setUp(adapter, () => page)
    await using app = await start({ compress: true })
    const url = `${app.url}/a`
    const first = await whole(url, { headers: { 'accept-encoding': 'br' } })
    expect(first.lines).toMatchObject({ vary: ['Accept-Encoding'], etag: ['"v1"'] })
    for (const coding of ['br', 'gzip'] as const) {
      const take = { headers: { 'accept-encoding': `${coding};q=0.8, identity;q=0.1` } }
      await eventually(async () => {
        const { lines } = await whole(url, take)
        expect(lines['content-encoding']).toEqual([coding])
      })
      const hit = await whole(url, take)
      expect(DECODERS[coding](hit.body).toString()).toBe(TEXT)
      expect(hit.lines).toMatchObject({
        vary: ['Accept-Encoding'],
        etag: [`"v1-${coding}"`],
        'content-length': [String(hit.body.length)],
      })
      expect(hit.body.length).toBeLessThan(TEXT.length / 4)
    }
    const plain = await whole(url)
    expect(plain.body.toString()).toBe(TEXT)
    expect(plain.lines).toMatchObject({ vary: ['Accept-Encoding'], etag: ['"v1"'] })
    expect(plain.lines).not.toHaveProperty('content-encoding')
    expect(runs.count).toBe(1)
  })

  it('have ETags of their own, which clients without the coding cannot use in conditions', async () => {
    const { runs, start } = setUp(adapter, () => page)
    await using app = await start({ compress: { codings: ['gzip'] } })
    const url = `${app.url}/a`
    const gzip = { 'accept-encoding': 'gzip' }
    await whole(url)
    await eventually(async () => expect(await codingOf(url, gzip)).toBe('gzip'))
    for (const tag of ['"v1"', 'W/"v1-gzip"', '"x", "v1-gzip"']) {
      const same = await whole(url, { headers: { ...gzip, 'if-none-match': tag } })
      expect([tag, same.status, same.lines.vary]).toEqual([tag, 304, ['Accept-Encoding']])
      expect(same.lines.etag).toEqual([tag === '"v1"' ? '"v1"' : '"v1-gzip"'])
    }
    const other = await whole(url, { headers: { ...gzip, 'if-none-match': '"v1-br"' } })
    expect(other.status).toBe(200)
    // A cache between here and the client would send the compressed form to clients that cannot
    // decode it.
    for (const takesNone of [{}, { 'accept-encoding': 'br' }, { 'accept-encoding': 'gzip;q=0' }]) {
      const refused = await whole(url, { headers: { ...takesNone, 'if-none-match': '"v1-gzip"' } })
      expect([refused.status, refused.body.toString()]).toEqual([200, TEXT])
      const both = { ...takesNone, 'if-none-match': '"v1-gzip", "v1"' }
      expect((await whole(url, { headers: both })).lines.etag).toEqual(['"v1"'])
    }
    const part = await whole(url, { headers: { ...gzip, range: 'bytes=0-7' } })
    expect([part.status, part.body.toString()]).toEqual([206, 'one line'])
    expect(part.lines).not.toHaveProperty('content-encoding')
    const head = await whole(url, { method: 'HEAD', headers: gzip })
    const get = await whole(url, { headers: gzip })
    for (const field of ['content-encoding', 'content-length', 'etag', 'vary'])
      expect([field, head.lines[field]]).toEqual([field, get.lines[field]])
    expect(runs.count).toBe(1)
  })

  it.each([
    ['too small', { body: 'short', headers: { 'content-type': 'text/plain' } }],
    ['of a compressed type', { body: TEXT, headers: { 'content-type': 'image/png' } }],
    [
      'marked no-transform',
      { body: TEXT, headers: { ...page.headers, 'cache-control': 'no-transform' } },
    ],
    [
      'already coded by the app',
      { body: TEXT, headers: { ...page.headers, 'content-encoding': 'x-own' } },
    ],
    [
      'covered by a Repr-Digest',
      { body: TEXT, headers: { ...page.headers, 'repr-digest': 'sha-256=:AA==:' } },
    ],
    ['not a success', { status: 404, body: TEXT, headers: page.headers }],
  ])('are not made of a response that is %s', async (_, says) => {
    const { start } = setUp(adapter, ({ path }) => (path === '/a' ? says : page))
    await using app = await start({ compress: true, negativeTtlMs: 1_000 })
    const url = `${app.url}/a`
    const take = { headers: { 'accept-encoding': 'gzip, br' } }
    const miss = await whole(url, take)
    await whole(url, take)
    // A compressed form of this page would exist by then.
    await whole(`${app.url}/other`)
    await eventually(async () =>
      expect(await codingOf(`${app.url}/other`, take.headers)).toBeDefined(),
    )
    const hit = await whole(url, take)
    expect(hit.body.toString()).toBe(says.body)
    const own = 'content-encoding' in says.headers ? ['x-own'] : undefined
    expect(hit.lines['content-encoding']).toEqual(own)
    expect(hit.lines.vary).toEqual(miss.lines.vary)
  })

  it('are made again after a refresh brings a new response', async () => {
    const { clock, start } = setUp(adapter, ({ path }, run) => ({
      ...page,
      body: `${path} ${run} ${TEXT}`,
    }))
    await using app = await start({ compress: true })
    const url = `${app.url}/a`
    const take = { 'accept-encoding': 'br' }
    for (const run of [1, 2]) {
      await whole(url)
      await eventually(async () => expect(await codingOf(url, take)).toBe('br'))
      const { body } = await whole(url, { headers: take })
      expect(brotliDecompressSync(body).toString()).toContain(`/a ${run} `)
      await clock.advance(10_000)
    }
  })
}

async function codingOf(url: string, headers: Record<string, string>): Promise<string | undefined> {
  const { lines } = await whole(url, { headers })
  return lines['content-encoding']?.[0]
}
