// Cases: header lines that Node drops, because the head is too long or a field is repeated.
import { expect, it } from 'vitest'
import type { CacheAdapter } from './adapter.ts'
import { get, setUp, untilClose } from './bench.ts'

/** Fields of which Node keeps the first line only. */
const SINGLE = [
  ...['host', 'user-agent', 'referer', 'from', 'content-type', 'max-forwards', 'etag', 'age'],
  ...['expires', 'location', 'retry-after', 'server', 'last-modified', 'authorization'],
  ...['proxy-authorization', 'if-modified-since', 'if-unmodified-since', '__proto__'],
]

/** Fields whose single line also prevents a hit. */
const UNSHARED: Readonly<Record<string, RegExp>> = {
  authorization: /detail=(vary-authorization|hit-for-miss)/,
  'if-unmodified-since': /detail=precondition/,
}

const junk = (lines: number): string[] => Array.from({ length: lines }, (_, i) => `X-${i}: 1`)

/** A GET with `before` lines before its last lines. The bench adds Host, so that one counts too. */
const behind = (before: number, ...last: string[]): string =>
  get('/a', 'Connection: close', ...junk(before - 2), ...last)

export function lostLineCases(adapter: CacheAdapter): void {
  it.each([
    ['Content-Length: 4', 'EVIL'],
    ['Transfer-Encoding: chunked', '4\r\nEVIL\r\n0\r\n\r\n'],
  ])('shares no response to a request with a body behind 1 000 fields: %s', async (field, body) => {
    const { runs, start } = setUp(adapter, async (_seen, _run, { req }) => {
      let text = ''
      for await (const chunk of req) text += chunk
      return { body: `body ${text}` }
    })
    await using app = await start()
    let refused = 0
    for (const before of [998, 999, 1_000, 1_001, 1_022, 1_040]) {
      const { status, headers } = await untilClose(app.url, behind(before, field) + body)
      // Newer versions of Node refuse the request themselves, and drop no lines.
      if (status.startsWith('HTTP/1.1 431')) refused += 1
      else expect(headers['cache-status'], `${before}`).toMatch(/detail=(cut-head|request-body)/)
      const { body: served } = await untilClose(app.url, get('/a', 'Connection: close'))
      expect(served, `${before}`).toContain('body ')
      expect(served, `${before}`).not.toContain('EVIL')
    }
    expect(runs.count).toBe(7 - refused)
    expect([0, 4]).toContain(refused)
  })

  it('serves a request with 990 fields from the cache', async () => {
    const { runs, start } = setUp(adapter)
    await using app = await start()
    for (const _round of [1, 2]) {
      const { status, body } = await untilClose(app.url, behind(990))
      expect([status, body]).toEqual(['HTTP/1.1 200 OK', 'run 1'])
    }
    expect(runs.count).toBe(1)
  })

  it.each(SINGLE)('shares no response to a request with two lines of %s', async (name) => {
    const { start } = setUp(adapter, (_seen, _run, { req: { rawHeaders } }) => ({
      headers: { vary: name === '__proto__' ? 'x-a' : name },
      body: rawHeaders.join('|'),
    }))
    await using app = await start({ authorization: 'ignore' })
    const value = name === 'host' ? 'shop.test' : 'own'
    const asks = (...lines: string[]) => {
      const own = name === 'host' ? [] : ['Host: shop.test']
      const head = ['GET /a HTTP/1.1', ...own, 'Connection: close', ...lines, '', '']
      return untilClose(app.url, head.join('\r\n'))
    }
    for (const lines of [
      [`${name}: ${value}`, `${name.toUpperCase()}: evil`],
      [`${name}: ${value}`, 'Accept: text/html', `${name}: ${value}`, `${name}: evil`],
    ]) {
      const planted = await asks(...lines)
      expect(planted.body).toContain('evil')
      expect(planted.headers['cache-status']).toContain('detail=repeated-field')
    }
    const one = name === '__proto__' ? [] : [`${name}: ${value}`]
    for (const _round of [1, 2]) expect((await asks(...one)).body).not.toContain('evil')
    const found = (await asks(...one)).headers['cache-status']
    expect(found).toMatch(UNSHARED[name] ?? /^Stampede; hit/)
  })

  it('takes two lines of a list field for one value', async () => {
    const { runs, start } = setUp(adapter, () => ({ headers: { vary: 'Accept-Language' } }))
    await using app = await start()
    const [de, en] = ['Accept-Language: de', 'Accept-Language: en']
    for (const lines of [[de, en], [de, en], ['Accept-Language: de, en']]) {
      const { body } = await untilClose(app.url, get('/a', ...lines, 'Connection: close'))
      expect(body).toBe('run 1')
    }
    expect(runs.count).toBe(1)
  })
}
