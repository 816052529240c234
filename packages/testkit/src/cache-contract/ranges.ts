// Cases: ranges of the client whose request runs the handler. The handler does not see them.
import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { createGate } from '../gate.ts'
import { ask, burst } from '../requests.ts'
import type { CacheAdapter, Says } from './adapter.ts'
import { get, leave, pipelined, setUp, statusOf, type Whole, whole } from './bench.ts'

const TEXT = '0123456789'
const STORED = 'Stampede; fwd=uri-miss; fwd-status=200; stored'
const CHANGED = 'Sun, 01 Jan 2023 00:00:00 GMT'

const stream = (...texts: readonly string[]): Readable =>
  Readable.from(texts.map((text) => Buffer.from(text)))
const bytes = (range: string, more: Record<string, string> = {}): object => ({
  headers: { range: `bytes=${range}`, ...more },
})
const shown = ({ status, lines, body }: Whole): unknown[] => [
  status,
  lines['content-range']?.join(),
  body.toString(),
]

export function rangeCases(adapter: CacheAdapter): void {
  const bodies: Readonly<Record<string, () => Says>> = {
    'a body at hand': () => ({ body: TEXT }),
    'a stream in one chunk': () => ({ headers: { 'content-length': '10' }, body: stream(TEXT) }),
    'a stream in bytes': () => ({ headers: { 'content-length': '10' }, body: stream(...TEXT) }),
    'a stream in odd chunks': () => ({
      headers: { 'content-length': '10' },
      body: stream('0123', '4', '', '56789'),
    }),
  }

  it.each(Object.keys(bodies))(
    'sends 206 or 416 to the client of a miss, and stores the full response: %s',
    async (name) => {
      const { runs, start } = setUp(adapter, () => {
        const says = bodies[name]?.()
        const own = { etag: '"v1"', 'content-type': 'text/x-own', 'cache-control': 'max-age=9' }
        return { ...says, headers: { ...says?.headers, ...own } }
      })
      await using app = await start()
      const parts = [
        ['3-5', 206, 'bytes 3-5/10', '345'],
        ['0-0', 206, 'bytes 0-0/10', '0'],
        ['0-', 206, 'bytes 0-9/10', TEXT],
        ['7-', 206, 'bytes 7-9/10', '789'],
        ['9-99', 206, 'bytes 9-9/10', '9'],
      ] as const
      for (const [range, ...expected] of parts) {
        const path = `${app.url}/a${range}`
        const first = await whole(path, bytes(range))
        expect(shown(first), range).toEqual(expected)
        expect(first.lines, range).toMatchObject({
          'content-length': [String(expected[2].length)],
          'content-type': ['text/x-own'],
          'cache-control': ['max-age=9, no-transform'],
          'cache-status': [STORED],
          etag: ['"v1"'],
        })
        expect(first.lines, range).not.toHaveProperty('transfer-encoding')
        const hit = await whole(path)
        expect([hit.status, hit.body.toString()], range).toEqual([200, TEXT])
        expect(hit.lines, range).toMatchObject({
          'cache-control': ['max-age=9'],
          'content-length': ['10'],
          'cache-status': ['Stampede; hit; ttl=9'],
        })
      }
      const beyond = await whole(`${app.url}/beyond`, bytes('10-'))
      expect([beyond.status, beyond.lines['content-range']]).toEqual([416, ['bytes */10']])
      expect(beyond.lines).toMatchObject({ 'cache-status': [STORED] })
      expect(JSON.parse(beyond.body.toString())).toMatchObject({ status: 416 })
      expect((await ask(`${app.url}/beyond`)).body).toBe(TEXT)
      expect(runs.count).toBe(parts.length + 1)
    },
  )

  it('sends the client of a miss the full response unless it requests a single byte range', async () => {
    const { start } = setUp(adapter, () => ({ body: TEXT }))
    await using app = await start()
    for (const range of ['bytes=0-1,3-4', 'bytes=4-3', 'bytes=x', 'lines=0-1', 'bytes=', '0-1']) {
      const answer = await whole(`${app.url}/${encodeURIComponent(range)}`, { headers: { range } })
      expect(shown(answer), range).toEqual([200, undefined, TEXT])
    }
  })

  it('sends the client of a miss a stream of unknown length in full, and later ranges of the entry', async () => {
    const { start } = setUp(adapter, () => ({ body: stream('01234', '56789') }))
    await using app = await start()
    expect(shown(await whole(`${app.url}/a`, bytes('3-5')))).toEqual([200, undefined, TEXT])
    expect(shown(await whole(`${app.url}/a`, bytes('3-5')))).toEqual([206, 'bytes 3-5/10', '345'])
  })

  it('compares If-Range strongly on a miss', async () => {
    const { start } = setUp(adapter, ({ path }) => ({
      body: TEXT,
      headers: path.startsWith('/weak')
        ? { etag: 'W/"v1"' }
        : path.startsWith('/date')
          ? { 'last-modified': CHANGED }
          : { etag: '"v1"' },
    }))
    await using app = await start()
    const cases = [
      ['/tag-same', '"v1"', 206],
      ['/tag-other', '"v2"', 200],
      ['/tag-date', CHANGED, 200],
      ['/weak', 'W/"v1"', 200],
      ['/weak-strong', '"v1"', 200],
      ['/date-same', CHANGED, 206],
      ['/date-later', 'Mon, 02 Jan 2023 00:00:00 GMT', 200],
      ['/date-tag', '"v1"', 200],
    ] as const
    for (const [path, condition, status] of cases) {
      const answer = await whole(app.url + path, bytes('0-1', { 'if-range': condition }))
      expect([answer.status, answer.body.length], path).toEqual([status, status === 206 ? 2 : 10])
    }
  })

  it('checks If-None-Match before Range on a miss', async () => {
    const { start } = setUp(adapter, () => ({ body: TEXT, headers: { etag: '"v1"' } }))
    await using app = await start()
    const cases = [
      ['"v1"', '0-1', 304],
      ['"v0", W/"v1"', '0-1', 304],
      ['*', '99-', 304],
      ['"v2"', '0-1', 206],
      ['"v2"', '99-', 416],
    ] as const
    for (const [i, [tag, range, status]] of cases.entries()) {
      const headers = { 'if-none-match': tag, 'if-modified-since': CHANGED }
      expect((await whole(`${app.url}/${i}`, bytes(range, headers))).status, tag).toBe(status)
    }
  })

  it('sends a response with a status other than 200 as the handler made it, without a range', async () => {
    const own = { 'content-range': 'bytes 0-1/9' }
    const { start } = setUp(adapter, ({ path }) => ({
      status: Number(path.slice(1, 4)),
      body: TEXT,
      headers: path === '/206' || path === '/200' ? own : {},
    }))
    await using app = await start({ negativeTtlMs: 5_000 })
    for (const status of [200, 206, 203, 404, 500]) {
      const answer = await whole(`${app.url}/${status}`, bytes('0-0', { 'if-none-match': '*' }))
      // `If-None-Match: *` matches any 200.
      if (status === 200) expect(answer.status).toBe(304)
      else expect([answer.status, answer.body.toString()]).toEqual([status, TEXT])
    }
    expect(shown(await whole(`${app.url}/200?2`, bytes('0-0')))).toEqual([200, 'bytes 0-1/9', TEXT])
  })

  const unstored: Readonly<Record<string, Record<string, string>>> = {
    private: { 'cache-control': 'private' },
    'set-cookie': { 'set-cookie': 'id=1' },
    'too-large': { 'x-large': 'yes' },
    expired: { 'cache-control': 'max-age=0' },
  }
  it.each(Object.keys(unstored))(
    'sends a range of a response that is not stored if the handler offers ranges: %s',
    async (reason) => {
      for (const [i, body] of [TEXT, stream(TEXT), stream(...TEXT)].entries()) {
        const { start } = setUp(adapter, () => ({
          headers: { ...unstored[reason], 'accept-ranges': 'bytes', 'content-length': '10' },
          body,
        }))
        await using app = await start(reason === 'too-large' ? { maxBodyBytes: 9 } : {})
        const range = ['3-5', '0-1', '9-'][i] ?? ''
        const answer = await whole(`${app.url}/a`, bytes(range))
        expect(answer.status).toBe(206)
        expect(answer.body.toString()).toBe(['345', '01', '9'][i])
        expect(answer.lines).toMatchObject({
          ...(reason === 'set-cookie' && { 'set-cookie': ['id=1'] }),
          'content-length': [String(answer.body.length)],
          'cache-status': [`Stampede; fwd=uri-miss; fwd-status=200; detail=${reason}`],
        })
      }
      const { start } = setUp(adapter, () => ({
        headers: { ...unstored[reason], 'accept-ranges': 'bytes', 'content-length': '10' },
        body: stream(TEXT),
      }))
      await using app = await start(reason === 'too-large' ? { maxBodyBytes: 9 } : {})
      const beyond = await whole(`${app.url}/a`, bytes('10-'))
      expect([beyond.status, beyond.lines['content-range']]).toEqual([416, ['bytes */10']])
      if (reason === 'set-cookie') expect(beyond.lines['set-cookie']).toEqual(['id=1'])
    },
  )

  it('sends a range of a response too large to be stored, even if the handler offers none', async () => {
    for (const body of [TEXT, stream(TEXT), stream(...TEXT)]) {
      const { start } = setUp(adapter, () => ({ headers: { 'content-length': '10' }, body }))
      await using app = await start({ maxBodyBytes: 9 })
      const answer = await whole(`${app.url}/a`, bytes('3-5'))
      expect(shown(answer)).toEqual([206, 'bytes 3-5/10', '345'])
    }
  })

  it('does not make the handler read a large file for a few bytes of it', async () => {
    const size = 8 * 1024 * 1024
    const piece = Buffer.alloc(64 * 1024)
    let read = 0
    /** A file server. It counts the bytes that it reads. */
    const { start } = setUp(adapter, ({ headers, path }) => {
      const length = path.startsWith('/small') ? 10 : size
      const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(String(headers.range)) ?? []
      const from = first === '' ? length - Number(last || length) : Number(first)
      const to = first === '' || last === '' ? length : Number(last) + 1
      function* body() {
        for (let at = from; at < to; at += piece.length) {
          const part = piece.subarray(0, Math.min(piece.length, to - at))
          read += part.length
          yield part
        }
      }
      const isPart = headers.range !== undefined
      const range = { 'content-range': `bytes ${from}-${to - 1}/${length}` }
      const own = { 'accept-ranges': 'bytes', 'content-length': String(to - from), etag: '"1"' }
      return {
        status: isPart ? 206 : 200,
        headers: { ...own, ...(isPart && range) },
        body: Readable.from(body()),
      }
    })
    await using app = await start()
    const middle = size / 2
    const far = [`${middle}-${middle}`, `${size - 1}-`, `${size - 1}-${size - 1}`]
    const expectLittle = async (path: string, range: string) => {
      read = 0
      const answer = await whole(app.url + path, bytes(range))
      expect([range, answer.status, answer.body.length]).toEqual([range, 206, 1])
      expect([range, read <= 2 * 1024 * 1024, read]).toEqual([range, true, read])
    }
    for (const [i, range] of [...far, '0-0', '9-9', '900000-900000', '-1'].entries()) {
      await expectLittle(`/cold${i}`, range)
    }
    for (const [i, range] of ['', '-1', '0-0'].entries()) {
      const fields = { 'if-none-match': '"1"', ...(range !== '' && { range: `bytes=${range}` }) }
      read = 0
      await whole(`${app.url}/same${i}`, { headers: fields })
      expect([range, read <= 2 * 1024 * 1024, read]).toEqual([range, true, read])
    }
    // The connection is free for the next request, although the handler has not ended, or the
    // client knows that it closes.
    const [part, next] = await pipelined(app.url, [
      get('/piped', 'Range: bytes=0-4'),
      get('/small2', 'Connection: close'),
    ])
    expect(part?.body.length).toBe(5)
    if (part?.headers.connection !== 'close') expect(next?.body.length).toBe(10)
    // After one response that is too large, all ranges of its path are those of the handler.
    expect((await whole(`${app.url}/large`)).body.length).toBe(size)
    for (const [i, range] of [...far, '0-0', '-1'].entries()) {
      await expectLittle(`/large?${i}`, range)
    }
    read = 0
    expect((await whole(`${app.url}/small`, bytes('0-1'))).body.length).toBe(2)
    const hit = await whole(`${app.url}/small`, bytes('-2'))
    expect([hit.status, hit.lines['content-range']]).toEqual([206, ['bytes 8-9/10']])
    expect(hit.lines['cache-status']).toEqual(['Stampede; hit; ttl=10'])
    expect(read).toBe(10)
  })

  it('cuts the last bytes from an entry, and fills none for a client that wants only these', async () => {
    const { runs, start } = setUp(adapter, ({ headers }) => ({
      body: TEXT,
      headers: { 'x-range': String(headers.range) },
    }))
    await using app = await start()
    for (const range of ['-2', '0-0,-1', '-99']) {
      const cold = await whole(`${app.url}/${range}`, bytes(range))
      expect([cold.status, cold.lines['x-range']]).toEqual([200, [`bytes=${range}`]])
      expect(cold.lines['cache-status']).toEqual(['Stampede; fwd=uri-miss'])
    }
    expect((await whole(`${app.url}/a`)).lines['x-range']).toEqual(['undefined'])
    expect(shown(await whole(`${app.url}/a`, bytes('-2')))).toEqual([206, 'bytes 8-9/10', '89'])
    expect(runs.count).toBe(4)
  })

  it('sends a response that is not stored in full if the handler offers no ranges', async () => {
    const { start } = setUp(adapter, () => ({
      headers: { 'cache-control': 'private', 'content-length': '10' },
      body: stream(TEXT),
    }))
    await using app = await start()
    expect(shown(await whole(`${app.url}/a`, bytes('3-5')))).toEqual([200, undefined, TEXT])
  })

  it.each([
    ['206', bytes('0-3'), 206, '0123'],
    ['416', bytes('99-'), 416, undefined],
    ['304', { headers: { 'if-none-match': '"v1"' } }, 304, ''],
  ] as const)(
    'sends %s before the source ends even if the response is not stored',
    async (_, options, status, body) => {
      const gate = createGate()
      let source: Readable | undefined
      const { start } = setUp(adapter, () => {
        async function* slow() {
          yield Buffer.from('0123')
          yield Buffer.from('4')
          await gate.opened
          yield Buffer.from('56789')
        }
        source = Readable.from(slow())
        return {
          headers: {
            'cache-control': 'private',
            'accept-ranges': 'bytes',
            'content-length': '10',
            etag: '"v1"',
          },
          body: source,
        }
      })
      await using app = await start()
      const answer = await whole(`${app.url}/a`, options)
      expect(answer.status).toBe(status)
      if (body !== undefined) expect(answer.body.toString()).toBe(body)
      if (source === undefined) throw new Error('the handler was not run')
      const closed = source.closed ? undefined : once(source, 'close')
      gate.open()
      // The source must not stay open after its client left. It is read to its end, or destroyed.
      await closed
    },
  )

  it('keeps a connection usable after 206, 416 and 304 responses', async () => {
    const { start } = setUp(adapter, ({ path }) => ({
      headers: {
        'content-length': '10',
        'accept-ranges': 'bytes',
        etag: '"v1"',
        ...(path.startsWith('/own') && { 'cache-control': 'private' }),
      },
      body: stream('01', '234', '56789'),
    }))
    await using app = await start()
    const asked = ['/a', '/own', '/b', '/own2', '/a'].flatMap((path) => [
      get(path, 'Range: bytes=2-4'),
      get(`${path}x`, 'Range: bytes=10-'),
      get(`${path}y`, 'If-None-Match: "v1"'),
    ])
    const answers = await pipelined(app.url, [...asked, get('/end', 'Connection: close')])
    expect(answers.map(({ status }) => status.slice(9, 12)).join(' ')).toBe(
      `${'206 416 304 '.repeat(5)}200`,
    )
    for (const { status, body } of answers) if (status.includes('206')) expect(body).toBe('234')
    expect(answers.at(-1)?.body).toBe(TEXT)
  })

  it('sends waiters the full response if the leader leaves after its range', async () => {
    const gate = createGate()
    const { arrivals, runs, start } = setUp(adapter, () => {
      async function* body() {
        yield Buffer.from('01234')
        await gate.opened
        yield Buffer.from('56789')
      }
      return { headers: { 'content-length': '10', etag: '"v1"' }, body: Readable.from(body()) }
    })
    await using app = await start()
    // A client that closes its connection once it has its part.
    const first = whole(`${app.url}/a`, bytes('0-1'))
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 5)
    await arrivals.reached(6)
    gate.open()
    expect(shown(await first)).toEqual([206, 'bytes 0-1/10', '01'])
    for (const { status, body } of await waiting) expect([status, body]).toEqual([200, TEXT])
    expect(runs.count).toBe(1)
  })

  it('sends waiters the full response if the leader leaves in the middle of its range', async () => {
    const [gate, gone] = [createGate(), createGate()]
    const { arrivals, runs, start } = setUp(adapter, (_seen, run, res) => {
      if (run === 1) res.once('close', gone.open)
      async function* body() {
        yield Buffer.from('01234')
        await gate.opened
        yield Buffer.from('56789')
      }
      return { headers: { 'content-length': '10', etag: '"v1"' }, body: Readable.from(body()) }
    })
    await using app = await start()
    const first = leave(`${app.url}/a`, { range: 'bytes=3-8' })
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 5)
    await arrivals.reached(6)
    first.go()
    await gone.opened
    gate.open()
    for (const { status, body } of await waiting) expect([status, body]).toEqual([200, TEXT])
    expect(shown(await whole(`${app.url}/a`, bytes('3-8')))).toEqual([
      206,
      'bytes 3-8/10',
      '345678',
    ])
    expect(runs.count).toBe(2)
  })

  it('sends waiters the full response if the leader never reads its range', async () => {
    const large = Buffer.alloc(8 * 1024 * 1024, 'x')
    const chunks = Array.from({ length: 128 }, (_, i) =>
      large.subarray(i * 65_536, (i + 1) * 65_536),
    )
    const { arrivals, runs, start } = setUp(adapter, () => ({
      headers: { 'content-length': String(large.length), etag: '"v1"' },
      body: Readable.from(chunks),
    }))
    await using app = await start({ maxBodyBytes: 32 * 1024 * 1024 })
    const first = connect(Number(new URL(app.url).port), '127.0.0.1').on('error', () => {})
    const host = new URL(app.url).host
    first.write(get('/a', 'Range: bytes=1-').replace('shop.test', host))
    await runs.reached(1)
    const waiting = burst([`${app.url}/a`], 3)
    await arrivals.reached(4)
    const answers = await waiting
    expect(answers.map(({ body }) => body.length)).toEqual(Array(3).fill(large.length))
    // Even if the leader reads late, it gets its whole part.
    let received = 0
    first.on('data', (chunk) => {
      received += chunk.length
      if (received > large.length) first.end()
    })
    await once(first, 'close')
    expect(received).toBeGreaterThanOrEqual(large.length)
    expect(runs.count).toBe(1)
  })

  it('stores nothing if the source breaks after the range of the leader', async () => {
    const { start } = setUp(adapter, (_seen, run) => {
      async function* broken() {
        yield Buffer.from('01234')
        await new Promise((resolve) => setImmediate(resolve))
        throw new Error('the source broke')
      }
      return {
        headers: { 'content-length': '10', etag: '"v1"' },
        body: run > 1 ? TEXT : Readable.from(broken()),
      }
    })
    await using app = await start()
    const first = await ask(`${app.url}/a`, { headers: { range: 'bytes=0-1' }, timeoutMs: 500 })
    expect(['', '0', '01']).toContain(first.body)
    const next = await ask(`${app.url}/a`)
    expect([next.body, statusOf(next)]).toEqual([TEXT, STORED])
  })

  it('stores the full response if a range request starts the refresh', async () => {
    const { clock, happened, start } = setUp(adapter, (_seen, run) => ({
      body: `${run}123456789`,
      headers: { etag: `"v${run}"` },
    }))
    await using app = await start({ staleWhileRevalidateMs: 60_000 })
    expect((await whole(`${app.url}/a`, bytes('0-1'))).body.toString()).toBe('11')
    await clock.advance(11_000)
    expect((await whole(`${app.url}/a`, bytes('0-1'))).body.toString()).toBe('11')
    await happened('fill.committed', 2)
    expect((await ask(`${app.url}/a`)).body).toBe('2123456789')
  })
}
