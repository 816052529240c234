// Cases: conditions of the client whose request runs the handler. The handler does not see them.
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask } from '../requests.ts'
import type { CacheAdapter, Says } from './adapter.ts'
import { get, pipelined, setUp, statusOf, whole } from './bench.ts'

const CHANGED = 'Thu, 01 Jan 2026 00:00:00 GMT'
const STORED = 'Stampede; fwd=uri-miss; fwd-status=200; stored'

export function conditionCases(adapter: CacheAdapter): void {
  const bodies: Readonly<Record<string, () => Says>> = {
    'a body at hand': () => ({ body: 'the page' }),
    'a stream': () => ({ body: Readable.from([Buffer.from('the '), Buffer.from('page')]) }),
    'a declared length': () => ({
      headers: { 'content-length': '8' },
      body: Readable.from([Buffer.from('the page')]),
    }),
  }
  const validators = [
    [{ etag: '"v1"' }, { 'if-none-match': 'W/"v0", W/"v1"' }],
    [{ 'last-modified': CHANGED }, { 'if-modified-since': CHANGED }],
  ] as const

  it.each(Object.keys(bodies))(
    'sends 304 to the client of a miss if it has this version, and stores the full response: %s',
    async (name) => {
      for (const [validator, condition] of validators) {
        const { runs, start } = setUp(adapter, () => {
          const says = bodies[name]?.()
          return {
            ...says,
            headers: { 'x-own': 'yes', vary: 'X-A', ...says?.headers, ...validator },
          }
        })
        await using app = await start()
        const first = await whole(`${app.url}/a`, { headers: condition })
        expect([first.status, first.body.length]).toEqual([304, 0])
        expect(first.lines).toMatchObject({ vary: ['X-A'], 'cache-status': [STORED] })
        for (const field of ['x-own', 'content-length', 'content-type', 'transfer-encoding'])
          expect(first.lines).not.toHaveProperty(field)
        const hit = await whole(`${app.url}/a`)
        expect([hit.status, hit.body.toString()]).toEqual([200, 'the page'])
        expect(hit.lines).toMatchObject({ 'x-own': ['yes'], 'content-length': ['8'] })
        expect(runs.count).toBe(1)
      }
    },
  )

  it('sends the CORS fields of the handler with each 304, so that scripts of other origins get it', async () => {
    const cors = {
      'access-control-allow-origin': ['*'],
      'access-control-expose-headers': ['etag'],
    }
    const fields = Object.fromEntries(Object.entries(cors).map(([name, lines]) => [name, lines[0]]))
    const { runs, start } = setUp(adapter, () => ({
      headers: { ...(fields as Record<string, string>), etag: '"v1"' },
    }))
    await using app = await start()
    const condition = { headers: { 'if-none-match': '"v1"', origin: 'https://other.test' } }
    for (const path of ['/a', '/b', '/a', '/b']) {
      const { status, lines } = await whole(app.url + path, condition)
      expect([path, status]).toEqual([path, 304])
      expect(lines).toMatchObject(cors)
    }
    expect(runs.count).toBe(2)
  })

  it('sends the full response to the client of a miss if it has another version', async () => {
    const { start } = setUp(adapter, () => ({ headers: { etag: '"v2"' } }))
    await using app = await start()
    const answer = await ask(`${app.url}/a`, { headers: { 'if-none-match': '"v1"' } })
    expect([answer.status, answer.body]).toEqual([200, 'run 1'])
  })

  it('sends 304 with all fields of the response to the client of a miss even if nothing is stored', async () => {
    const own = { 'set-cookie': ['a=1', 'b=2'], 'x-own': 'yes', 'content-type': 'text/x-own' }
    const { start } = setUp(adapter, ({ path }) => ({
      headers: { ...own, ...(path === '/date' ? { 'last-modified': CHANGED } : { etag: '"v1"' }) },
    }))
    await using app = await start()
    for (const [path, condition, status] of [
      ['/tag', { 'if-none-match': '"v0", W/"v1"' }, 304],
      ['/star', { 'if-none-match': '*' }, 304],
      ['/other', { 'if-none-match': '"v0"', 'if-modified-since': CHANGED }, 200],
      ['/date', { 'if-modified-since': CHANGED }, 304],
      // Without Last-Modified, the Date of the response does not count.
      ['/none', { 'if-modified-since': 'Fri, 01 Jan 2100 00:00:00 GMT' }, 200],
    ] as const) {
      const answer = await whole(app.url + path, { headers: condition })
      expect(answer.status, path).toBe(status)
      expect(answer.lines, path).toMatchObject({
        'set-cookie': ['a=1', 'b=2'],
        'x-own': ['yes'],
        'cache-status': ['Stampede; fwd=uri-miss; fwd-status=200; detail=set-cookie'],
      })
      if (status === 304) expect(answer.lines, path).not.toHaveProperty('content-type')
    }
  })

  it('sends 304 for an ETag that the cache added, also after another fill of the entry', async () => {
    const { clock, runs, start } = setUp(adapter, () => ({ body: 'the same' }))
    await using app = await start()
    const { headers } = await ask(`${app.url}/a`)
    await clock.advance(11_000)
    const again = await ask(`${app.url}/a`, { headers: { 'if-none-match': String(headers.etag) } })
    expect([again.status, again.headers.etag, runs.count]).toEqual([304, headers.etag, 2])
    expect((await ask(`${app.url}/a`)).body).toBe('the same')
  })

  it('sends the full response to waiters without a condition if the leader gets a 304', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, async () => {
      await gate.opened
      return { headers: { etag: '"v1"' }, body: Readable.from([Buffer.from('the page')]) }
    })
    await using app = await start()
    const condition = 'If-None-Match: "v1"'
    const first = pipelined(app.url, [
      get('/a', condition),
      get('/a', condition),
      get('/a', 'Connection: close'),
    ])
    await runs.reached(1)
    const others = [ask(`${app.url}/a`), ask(`${app.url}/a`)]
    await arrivals.reached(3)
    gate.open()
    expect((await first).map(({ status, body }) => `${status.slice(9, 12)} ${body}`)).toEqual([
      '304 ',
      '304 ',
      '200 the page',
    ])
    for (const other of await Promise.all(others)) expect(other.body).toBe('the page')
  })

  it('stores a slow response in full even if the client of the miss gets only a 304', async () => {
    const { runs, start } = setUp(adapter, () => ({
      headers: { etag: '"v1"' },
      body: Readable.from(slow()),
    }))
    await using app = await start()
    const first = await whole(`${app.url}/a`, { headers: { 'if-none-match': '"v1"' } })
    expect([first.status, first.body.length]).toEqual([304, 0])
    const next = await ask(`${app.url}/a`)
    expect([next.body, runs.count]).toEqual(['the page', 1])
  })

  it('sends 304 even if the body is too large to store', async () => {
    const { start } = setUp(adapter, () => ({
      headers: { etag: '"v1"', 'x-own': 'yes' },
      body: Readable.from(slow()),
    }))
    await using app = await start({ maxBodyBytes: 5 })
    const answers = await pipelined(app.url, [
      get('/a', 'If-None-Match: "v1"', 'Connection: close'),
    ])
    expect(answers).toMatchObject([{ status: 'HTTP/1.1 304 Not Modified', body: '' }])
    expect((await ask(`${app.url}/a`)).body).toBe('the page')
  })

  it('stores neither a response whose handler throws in the middle nor the error page', async () => {
    const { start } = setUp(adapter, (_seen, run, res) => {
      if (run > 1) return { headers: { etag: '"v1"' }, body: 'the page' }
      res.setHeader('ETag', '"v1"').write('the ')
      throw new Error('in the middle')
    })
    await using app = await start()
    await ask(`${app.url}/a`, { headers: { 'if-none-match': '"v1"' }, timeoutMs: 500 })
    expect((await ask(`${app.url}/a`)).body).toBe('the page')
  })

  it('stores nothing of a stream that breaks after the client got a 304', async () => {
    const { happened, start } = setUp(adapter, (_seen, run) => ({
      headers: { etag: '"v1"' },
      body: run > 1 ? 'the page' : Readable.from(broken()),
    }))
    await using app = await start()
    const first = ask(`${app.url}/a`, { headers: { 'if-none-match': '"v1"' }, timeoutMs: 500 })
    await happened('fill.abandoned')
    expect([0, 304, 500]).toContain((await first).status)
    const next = await ask(`${app.url}/a`)
    expect([next.body, statusOf(next)]).toEqual(['the page', STORED])
  })
}

async function* slow(): AsyncGenerator<Buffer> {
  for (const text of ['the ', 'pa', 'ge']) {
    yield Buffer.from(text)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function* broken(): AsyncGenerator<Buffer> {
  yield Buffer.from('the ')
  await new Promise((resolve) => setImmediate(resolve))
  throw new Error('the source broke')
}
