// Cases: the bytes of HTTP/1, namely framing and fields, and that a hit equals its miss.
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask, burst } from '../requests.ts'
import type { CacheAdapter, Says } from './adapter.ts'
import { get, leave, pipelined, setUp, statusOf, untilClose, type Whole, whole } from './bench.ts'

/** Lines that a cache may add, or that frame the body. The body itself is compared byte by byte. */
const OWN = [
  'cache-status',
  'age',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
]

function content({ status, lines, body }: Whole): object {
  const fields = Object.entries(lines).filter(([name]) => !OWN.includes(name))
  return { status, fields: Object.fromEntries(fields), body: body.toString('hex') }
}

export function wireCases(adapter: CacheAdapter): void {
  it('sends every line and byte of the miss on a hit, for each way to respond', async () => {
    await using app = await adapter.startWays({ ttlMs: 60_000 })
    for (const way of app.ways) {
      const url = `${app.url}/${way}`
      const [miss, hit, again] = [await whole(url), await whole(url), await whole(url)]
      expect(String(hit.lines['cache-status']), way).toMatch(/; hit;/)
      expect(content(hit), way).toEqual(content(miss))
      expect(content(again), way).toEqual(content(miss))
      // A hit has one line more than the miss, and a length in place of chunks.
      expect(hit.lines, way).toMatchObject({
        age: ['0'],
        'content-length': [String(miss.body.length)],
      })
      expect(hit.lines, way).not.toHaveProperty('transfer-encoding')
    }
  })

  it('describes each lookup in one member of Cache-Status', async () => {
    const gate = createGate()
    const { arrivals, clock, start } = setUp(adapter, async ({ path }) => {
      if (path === '/joined') await gate.opened
      return { headers: path === '/behind' ? { 'cache-status': 'Inner; hit' } : {} }
    })
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    const told = async (path: string) => statusOf(await ask(app.url + path))
    expect(await told('/a')).toBe('Stampede; fwd=uri-miss; fwd-status=200; stored')
    expect(await told('/a')).toBe('Stampede; hit; ttl=10')
    await clock.advance(12_000)
    expect(await told('/a')).toBe('Stampede; hit; ttl=-2')
    expect(await told('/behind')).toBe('Inner; hit, Stampede; fwd=uri-miss; fwd-status=200; stored')
    expect(await told('/behind')).toMatch(/Stampede; hit; ttl=10$/)
    const waiting = burst([`${app.url}/joined`], 3)
    // One of the requests was the refresh, if refreshes go through the counting layer.
    await arrivals.reached(adapter.refreshesOutside ? 9 : 8)
    gate.open()
    expect((await waiting).map(statusOf).sort()).toEqual([
      'Stampede; fwd=uri-miss; fwd-status=200; stored',
      ...Array(2).fill('Stampede; fwd=uri-miss; fwd-status=200; ttl=10; collapsed'),
    ])
  })

  it('does not send trailers of a miss as header fields of a hit', async () => {
    const { start } = setUp(adapter, (_seen, _run, res) => {
      res.addTrailers({ 'X-Sum': '15' })
      return { headers: { 'x-own': 'yes' }, body: streamOf('body') }
    })
    await using app = await start()
    const miss = await whole(`${app.url}/a`)
    expect([miss.body.toString(), miss.trailers]).toEqual(['body', { 'x-sum': ['15'] }])
    const hit = await whole(`${app.url}/a`)
    expect(String(hit.lines['cache-status'])).toContain('hit')
    expect(hit.body.toString()).toBe('body')
    expect(hit.lines).toMatchObject({ 'x-own': ['yes'] })
    expect([hit.lines['x-sum'], hit.trailers]).toEqual([undefined, {}])
  })

  it('sends early hints on a miss, and none on a hit', async () => {
    const { start } = setUp(adapter, (_seen, _run, res) => {
      res.writeEarlyHints({ link: '</style.css>; rel=preload' })
      return { headers: { 'x-own': 'yes' } }
    })
    await using app = await start()
    const miss = await whole(`${app.url}/a`)
    expect([miss.before, miss.status]).toEqual([[103], 200])
    const hit = await whole(`${app.url}/a`)
    expect([hit.before, hit.status, hit.lines.link]).toEqual([[], 200, undefined])
    expect(content(hit)).toEqual(content(miss))
  })

  it.each([
    ['alone', false],
    ['after setHeader', true],
  ])(
    'sends the same fields as without a cache after writeHead with an array, %s',
    async (_, before) => {
      const { bare, start } = setUp(adapter, ({ path }, _run, res) => {
        if (before) res.setHeader('X-Before', 'yes')
        const field = path === '/cookies' ? 'Set-Cookie' : 'Link'
        // With an ETag of its own, a response gets none from the cache.
        const own = ['X-Own', 'yes', 'Date', 'today', 'ETag', '"own"']
        res.writeHead(200, [field, 'a=1', field, 'b=2', ...own])
        res.end('own')
        return undefined
      })
      await using cached = await start()
      await using plain = await bare()
      for (const path of ['/cookies', '/links']) {
        const expected = content(await whole(plain.url + path))
        for (const _round of [1, 2]) {
          expect(content(await whole(cached.url + path)), path).toEqual(expected)
        }
      }
      expect(statusOf(await ask(`${cached.url}/cookies`))).not.toContain('; hit')
    },
  )

  it.each<[string, readonly string[], Says]>([
    ['a response to store', [], {}],
    ['a request with Authorization', ['Authorization: Bearer a'], {}],
    ['a status that is not stored', [], { status: 404, headers: { 'cache-control': 'no-store' } }],
    ['no-store', [], { headers: { 'cache-control': 'no-store' } }],
    ['a private response', [], { headers: { 'cache-control': 'private' } }],
    ['an event stream', [], { headers: { 'content-type': 'text/event-stream' } }],
  ])(
    'sends one of Content-Length and Transfer-Encoding if the handler sets the latter: %s',
    async (kind, fields, said) => {
      const { bare, start } = setUp(adapter, ({ path }) => ({
        ...said,
        headers: { ...said.headers, 'transfer-encoding': 'chunked' },
        body: path === '/text' ? 'ab' : Readable.from(CHUNKS[path] ?? []),
      }))
      await using app = await start()
      await using plain = await bare()
      for (const path of [...Object.keys(CHUNKS), '/text']) {
        for (const method of ['GET', 'GET', 'POST']) {
          const where = `${kind}: ${method} ${path}`
          const framed = async (url: string) => {
            const head = [`${method} ${path} HTTP/1.1`, 'Host: shop.test', 'Connection: close']
            const lines = [...head, ...fields, 'Content-Length: 0', '', '']
            const { headers } = await untilClose(url, lines.join('\r\n'))
            return ['content-length', 'transfer-encoding'].filter((name) => name in headers)
          }
          // Some frameworks send both fields even without a cache.
          if ((await framed(plain.url)).length > 1) continue
          expect(await framed(app.url), where).toHaveLength(1)
          const { body } = await whole(app.url + path, { method, headers: fieldsOf(fields) })
          expect(body.toString(), where).toBe((CHUNKS[path] ?? ['ab']).join(''))
        }
      }
    },
  )

  it('stores a response that ends after its client left', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { happened, runs, start } = setUp(adapter, async (_seen, run, res) => {
      if (run > 1) return {}
      res.once('close', gone.open)
      await gate.opened
      return {}
    })
    await using app = await start()
    const left = leave(`${app.url}/a`)
    await runs.reached(1)
    left.go()
    await gone.opened
    gate.open()
    // If the framework writes last, layers outside have not acted yet, and one of them may set a
    // session cookie. For a front before it, Koa 3 ends such a response without its body.
    await happened(adapter.writesLast ? 'fill.abandoned' : 'fill.committed')
    const next = await ask(`${app.url}/a`)
    expect([next.status, next.body]).toEqual([200, adapter.writesLast ? 'run 2' : 'run 1'])
  })

  it('stores all or nothing of a stream that began after its client left', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { happened, runs, start } = setUp(adapter, async (_seen, run, res) => {
      if (run > 1) return { body: streamOf('whole') }
      res.once('close', gone.open)
      await gate.opened
      return { body: streamOf('whole') }
    })
    await using app = await start()
    const left = leave(`${app.url}/a`)
    await runs.reached(1)
    left.go()
    await gone.opened
    gate.open()
    await Promise.race([happened('fill.abandoned'), happened('fill.committed')])
    expect((await ask(`${app.url}/a`)).body).toBe('whole')
  })

  it('sends the Content-Length for a HEAD of a page that was streamed', async () => {
    const { runs, start } = setUp(adapter, () => ({ body: streamOf('héllo') }))
    await using app = await start()
    await whole(`${app.url}/a`)
    const head = await whole(`${app.url}/a`, { method: 'HEAD' })
    expect(head.lines).toMatchObject({ 'content-length': ['6'] })
    expect(head.lines).not.toHaveProperty('transfer-encoding')
    expect([head.status, head.body.length, runs.count]).toEqual([200, 0, 1])
  })

  it.each([
    ['HTTP/1.0', 'GET /a HTTP/1.0\r\nHost: shop.test\r\n\r\n', 'close'],
    [
      'HTTP/1.0 that keeps alive',
      'GET /a HTTP/1.0\r\nHost: shop.test\r\nConnection: keep-alive\r\n\r\n',
      'keep-alive',
    ],
    ['Connection: close', get('/a', 'Connection: close'), 'close'],
  ])('frames a hit correctly for %s', async (_, bytes, connection) => {
    const { start } = setUp(adapter, () => ({ body: streamOf('hello') }))
    await using app = await start()
    await untilClose(app.url, get('/a', 'Connection: close'))
    const hit = await (connection === 'close'
      ? untilClose(app.url, bytes)
      : pipelined(app.url, [bytes, get('/a', 'Connection: close')]).then(([first]) => first))
    expect(hit).toMatchObject({
      status: 'HTTP/1.1 200 OK',
      headers: { 'content-length': '5', connection },
      body: 'hello',
    })
    expect(hit?.headers).not.toHaveProperty('transfer-encoding')
  })

  it('stores a response once if the cache is mounted twice, and does not wait for itself', async () => {
    const { events, runs, start } = setUp(adapter)
    await using app = await start([{}, {}])
    expect((await ask(`${app.url}/a`)).body).toBe('run 1')
    expect((await ask(`${app.url}/a`)).body).toBe('run 1')
    expect(runs.count).toBe(1)
    expect(events.filter(({ type }) => type === 'fill.committed')).toHaveLength(1)
  })
}

/** Bodies of streams, by path. */
const CHUNKS: Readonly<Record<string, readonly string[]>> = {
  '/none': [],
  '/one': ['a'],
  '/two': ['a', 'b'],
}

const fieldsOf = (lines: readonly string[]): Record<string, string> =>
  Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]))

/** Whether the adapter does not know the length of the body. */
const streamOf = (text: string): Readable => Readable.from([Buffer.from(text)])
