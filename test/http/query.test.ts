// QUERY (RFC 10008) on every framework: its body is a part of the key.

import { once } from 'node:events'
import { createServer, METHODS, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache as onExpress } from '@stampede/express'
import { stampedeFront } from '@stampede/node-http'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { serveHttp2 } from '../../packages/node-http/src/testing/raw-client.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { type Answers, type Asked, type QueryApp, queryApps } from '../harness/query-apps.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const KNOWS_QUERY = METHODS.includes('QUERY')
const CACHED = ['GET', 'QUERY'] as const
const JSON_TYPE = { 'Content-Type': 'application/json' }

interface Got {
  readonly status: number
  readonly body: string
  readonly cache: string
  readonly headers: NodeJS.Dict<string | string[]>
}

type Fields = Readonly<Record<string, string>>

/** Sends a request with the pieces of a body, each of them in a packet of its own. */
function send(
  url: string,
  body: string | readonly string[] | Buffer,
  fields: Fields = JSON_TYPE,
  method = 'QUERY',
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const isWhole = typeof body === 'string' || Buffer.isBuffer(body)
    const length = isWhole ? { 'Content-Length': String(Buffer.byteLength(body)) } : {}
    const req = request(
      url,
      { method, headers: { Host: 'a', ...length, ...fields } },
      async (res) => {
        const { statusCode: status = 0, headers } = res
        const cache = String(headers['cache-status'] ?? '')
        resolve({ status, headers, cache, body: await text(res) })
      },
    )
    req.on('error', reject).setNoDelay(true)
    if (isWhole) req.end(body)
    else {
      for (const piece of body) req.write(piece)
      req.end()
    }
  })
}

/** Starts an app whose responses have the number of the run and the body that the handler saw. */
async function start(
  { start }: QueryApp,
  options: object = {},
  answer: (asked: Asked, run: number) => Partial<Answers> = () => ({}),
) {
  const clock = new ManualClock()
  const stampede = createStampede({ clock })
  const asked: Asked[] = []
  const all = { stampede, methods: CACHED, ttlMs: 10_000, ...options }
  const app = await start(all, (each) => {
    asked.push(each)
    const body = `${asked.length} ${each.method} ${each.body}`
    return { body, ...answer(each, asked.length) }
  })
  onTestFinished(() => app[Symbol.asyncDispose]())
  const url = `${app.url}/search`
  const query = (...[body, fields]: [Parameters<typeof send>[1], Fields?]) =>
    send(url, body, fields)
  return { url, query, asked, clock, stampede }
}

const plain = queryApps[0] as QueryApp

describe.skipIf(!KNOWS_QUERY).each(queryApps)('a QUERY on $name', (app) => {
  it('is stored by its body, which the handler can read', async () => {
    const { query, asked } = await start(app)
    for (const body of ['{"q":"a"}', '{"q":"b"}']) {
      expect((await query(body)).cache).toContain('stored')
      const again = await query(body)
      expect(again.cache).toContain('hit')
      expect(again.body).toBe(`${asked.length} QUERY ${body}`)
    }
    expect(asked.map(({ body }) => body)).toEqual(['{"q":"a"}', '{"q":"b"}'])
  })

  it('never shares a response with another body of its length, nor with a GET', async () => {
    const { url, query, asked } = await start(app)
    const bodies = Array.from({ length: 20 }, (_, i) => `{"page":${10 + i}}`)
    const got = await Promise.all(bodies.map((body) => query(body)))
    expect(new Set(got.map(({ body }) => body)).size).toBe(20)
    const read = (await send(url, '', {}, 'GET')).body
    expect(read).toMatch(/^21 GET/)
    for (const [i, body] of bodies.entries()) expect((await query(body)).body).toBe(got[i]?.body)
    expect((await send(url, '', {}, 'GET')).body).toBe(read)
    expect(asked.length).toBe(21)
  })

  it('is one key in one piece and in pieces of a byte', async () => {
    const { query, asked } = await start(app)
    const body = JSON.stringify({ text: 'Zoë '.repeat(40) })
    await query([...body])
    expect((await query(body)).cache).toContain('hit')
    expect(asked.map((each) => each.body)).toEqual([body])
  })

  it('reaches the handler complete if it has nearly maxBytes', async () => {
    const { query, asked } = await start(app)
    const body = JSON.stringify({ text: 'x'.repeat(65_000) })
    await query([body.slice(0, 9), body.slice(9, 40_000), body.slice(40_000)])
    expect((await query(body)).cache).toContain('hit')
    expect(asked.map((each) => each.body)).toEqual([body])
  })

  it('bypasses the cache above maxBytes, and reaches the handler complete', async () => {
    const { query, asked } = await start(app, { query: { maxBytes: 1_000 } })
    const body = JSON.stringify({ text: 'x'.repeat(50_000) })
    expect((await query(body)).cache).toContain('detail=body-too-large')
    // Without a length, a parser in front has read it by then.
    const pieces = [body.slice(0, 9), body.slice(9)]
    if (!app.isParsed) expect((await query(pieces)).cache).toContain('detail=body-too-large')
    expect(asked.map((each) => each.body)).toEqual(app.isParsed ? [body] : [body, body])
  })

  it('is refreshed in the background with its method and its body', async () => {
    const { query, asked, clock } = await start(app, { staleWhileRevalidateMs: 60_000 })
    const body = '{"q":"a"}'
    await query(body)
    await clock.advance(20_000)
    expect((await query(body)).body).toBe(`1 QUERY ${body}`)
    await expect.poll(async () => (await query(body)).body).toBe(`2 QUERY ${body}`)
    const [first, second] = asked
    expect(second?.headers['content-type']).toBe(first?.headers['content-type'])
    expect(second?.headers['content-length']).toBe(String(body.length))
    expect(asked.length).toBe(2)
  })

  it('gets 304 and 206, on a miss and on a hit', async () => {
    const { query } = await start(app)
    const body = '{"q":"a"}'
    const part = await query(body, { ...JSON_TYPE, Range: 'bytes=0-6' })
    expect([part.status, part.body]).toEqual([206, '1 QUERY'])
    const whole = await query(body)
    const tag = { ...JSON_TYPE, 'If-None-Match': String(whole.headers.etag) }
    expect((await query(body, tag)).status).toBe(304)
    expect((await query(body, { ...JSON_TYPE, Range: 'bytes=0-0' })).body).toBe('1')
  })

  it('is purged by a POST to its URL', async () => {
    const { url, query, asked } = await start(app, { ttlMs: 10_000 })
    await query('{"q":"a"}')
    await send(url, '{}', JSON_TYPE, 'POST')
    expect((await query('{"q":"a"}')).body).toBe('3 QUERY {"q":"a"}')
    expect(asked.length).toBe(3)
  })

  it('is purged by its path, and is counted as a response of it', async () => {
    const { query, stampede } = await start(app)
    await query('{"q":"a"}')
    await stampede.purge({ path: '/search' })
    expect((await query('{"q":"a"}')).cache).toContain('stored')
  })
})

type Listener = Parameters<typeof createServer>[1]

async function listening(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const frontOf = (listener: NonNullable<Listener>, options: object = {}) =>
  stampedeFront(listener, { methods: CACHED, ttlMs: 10_000, ...options })

/** All bytes that a server sends for these bytes. */
async function exchange(port: number, sent: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(sent)
  return text(socket)
}

const head = (...fields: string[]) =>
  ['QUERY /search HTTP/1.1', 'Host: a', 'Content-Type: application/json', ...fields, '', ''].join(
    '\r\n',
  )
const whole = (body: string, ...fields: string[]) =>
  head(...fields, `Content-Length: ${Buffer.byteLength(body)}`) + body

describe.skipIf(!KNOWS_QUERY)('a QUERY', () => {
  it('runs the handler once for equal bodies at once', async () => {
    let runs = 0
    const gate = createGate()
    const stampede = createStampede()
    const listener = frontOf(
      async (req, res) => {
        runs += 1
        const body = await text(req)
        await gate.opened
        res.end(body)
      },
      { stampede },
    )
    const url = `http://127.0.0.1:${await listening(createServer(listener))}/`
    const pending = Array.from({ length: 50 }, (_, i) => send(url, `{"a":${i % 2}}`))
    await expect.poll(() => stampede.stats().active.flights).toBe(2)
    gate.open()
    const bodies = (await Promise.all(pending)).map(({ body }) => body)
    expect(bodies).toEqual(bodies.map((_, i) => `{"a":${i % 2}}`))
    expect(runs).toBe(2)
  })

  it('has a response with a cookie for itself', async () => {
    const { query } = await start(plain, {}, (_, run) => ({
      headers: { 'Set-Cookie': `id=${run}` },
    }))
    const got = await Promise.all([1, 2, 3].map(() => query('{}')))
    const cookies = got.map(({ headers }) => String(headers['set-cookie']))
    expect(cookies.sort()).toEqual(['id=1', 'id=2', 'id=3'])
  })

  it('replays Location and Content-Location, which make no entry of a GET', async () => {
    const headers = { 'Content-Location': '/stored/1', Location: '/search/1' }
    const { url, query, asked } = await start(plain, {}, ({ method }) =>
      method === 'QUERY'
        ? { status: 303, headers: { ...headers, 'Cache-Control': 'max-age=60' } }
        : {},
    )
    await query('{}')
    const again = await query('{}')
    expect([again.status, again.cache]).toEqual([303, expect.stringContaining('hit')])
    expect(again.headers).toMatchObject({ location: '/search/1', 'content-location': '/stored/1' })
    const { origin } = new URL(url)
    for (const path of ['/search/1', '/stored/1'])
      expect((await send(origin + path, '', {}, 'GET')).cache).toContain('stored')
    expect(asked.length).toBe(3)
  })

  it('is shared by two processes through Redis, which gets no body', async () => {
    const clients = [1, 2].map(() => new Redis(server.url))
    onTestFinished(() => {
      for (const each of clients) each.disconnect()
    })
    const apps = await Promise.all(
      clients.map((client) => {
        const store = redisStore(client, { ...PATIENT, prefix: 'query' })
        return start(plain, { stampede: createStampede({ store }) })
      }),
    )
    const [one, two] = apps.map(({ query }) => query)
    await one?.('{"password":"secret"}')
    await expect.poll(async () => (await two?.('{"password":"secret"}'))?.cache).toContain('hit')
    expect(apps.map(({ asked }) => asked.length)).toEqual([1, 0])
    const names = await admin.keys('*')
    expect(names.length).toBeGreaterThan(0)
    expect(names.join()).not.toContain('secret')
  })

  it('leaves the connection usable after a hit and after a 304', async () => {
    const { url } = await start(plain, {}, () => ({ headers: { ETag: '"v"' } }))
    const body = `{"a":"${'x'.repeat(30_000)}"}`
    await send(url, body)
    const sent =
      whole(body) + whole(body, 'If-None-Match: "v"') + whole('{"b":1}', 'Connection: close')
    const got = await exchange(Number(new URL(url).port), sent)
    expect(got.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 304', 'HTTP/1.1 200'])
    expect(got).toMatch(/2 QUERY \{"b":1\}$/)
  })

  it('is stored under the bytes between its chunks, without trailers and extensions', async () => {
    const { url, asked } = await start(plain)
    await send(url, '{"a":1}')
    const chunks = '3;x=1\r\n{"a\r\n4\r\n":1}\r\n0\r\nX-Late: 1\r\n\r\n'
    const sent = head('Transfer-Encoding: chunked', 'Connection: close') + chunks
    expect(await exchange(Number(new URL(url).port), sent)).toContain('Stampede; hit')
    expect(asked.length).toBe(1)
  })

  it.each([
    ['Content-Length and chunks', ['Content-Length: 3', 'Transfer-Encoding: chunked'], '0\r\n\r\n'],
    ['two lengths', ['Content-Length: 2', 'Content-Length: 3'], '{}x'],
    ['a broken chunk', ['Transfer-Encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n'],
  ])('makes no entry if its framing is ambiguous: %s', async (_, fields, body) => {
    const { url, stampede } = await start(plain)
    const got = await exchange(
      Number(new URL(url).port),
      head('Connection: close', ...fields) + body,
    )
    expect(got).not.toContain('stored')
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
    expect((await send(url, '{}')).cache).toContain('stored')
  })

  it('gets 100 Continue before its body is read', async () => {
    const { url } = await start(plain)
    const fields = ['Expect: 100-continue', 'Content-Length: 2', 'Connection: close']
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(head(...fields))
    await once(socket, 'readable')
    expect(String(socket.read())).toBe('HTTP/1.1 100 Continue\r\n\r\n')
    socket.write('{}')
    expect(await text(socket)).toContain('1 QUERY {}')
  })

  it('makes no lease or entry if its client leaves before the end of its body', async () => {
    const { url, stampede, asked } = await start(plain)
    let left = 0
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`${head('Content-Length: 10')}{"a"`)
    socket.on('error', () => {}).once('close', () => (left += 1))
    await once(socket, 'ready')
    socket.destroy()
    await expect.poll(() => left).toBe(1)
    expect((await send(url, '{"a"')).body).toMatch(/QUERY \{"a"$/)
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
    expect(asked.filter(({ body }) => body === '{"a"').length).toBeLessThanOrEqual(2)
  })

  it('passes two caches with different limits', async () => {
    const stampede = createStampede()
    const limits = [
      [1_000, 10],
      [10, 1_000],
      [1_000, 1_000],
    ]
    for (const [i, sizes] of limits.entries()) {
      const app = express().set('env', 'test')
      for (const maxBytes of sizes) {
        const query = { maxBytes }
        app.use(onExpress({ stampede, methods: CACHED, query, ttlMs: 10_000 }))
      }
      app.use(async (req, res) => void res.type('text').send(await text(req)))
      const url = `http://127.0.0.1:${await listening(createServer(app))}/${i}`
      const body = JSON.stringify({ text: 'x'.repeat(100) })
      for (const each of [body, [body.slice(0, 50), body.slice(50)], body])
        expect(await send(url, each)).toMatchObject({ status: 200, body })
      expect((await send(url, body)).cache).toContain('hit')
    }
  })

  it('fails with ERR_STAMPEDE_BODY_UNSEEN if another layer has read its body', async () => {
    const app = express().set('env', 'test')
    app.use(async (req, _res, next) => {
      await text(req)
      next()
    })
    app.use(onExpress({ methods: CACHED, ttlMs: 10_000 }))
    const url = `http://127.0.0.1:${await listening(createServer(app))}/`
    const { status, body } = await send(url, '{}')
    expect(status).toBe(500)
    expect(body).toContain('mount stampedeCache() before that layer')
  })

  it('warns if it cannot be refreshed, because only its parsed form is known', async () => {
    const clock = new ManualClock()
    const app = express().set('env', 'test')
    const warnings: string[] = []
    const listen = (warning: Error) => void warnings.push(warning.message)
    process.on('warning', listen)
    onTestFinished(() => void process.off('warning', listen))
    app.use(express.urlencoded({ extended: false }))
    const options = { ttlMs: 10_000, staleWhileRevalidateMs: 60_000 }
    app.use(onExpress({ stampede: createStampede({ clock }), methods: CACHED, ...options }))
    app.use((req, res) => void res.json(req.body))
    const url = `http://127.0.0.1:${await listening(createServer(app))}/form`
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
    expect((await send(url, 'b=1&a=2', form)).body).toBe('{"b":"1","a":"2"}')
    expect((await send(url, 'a=2&b=1', form)).body).toBe('{"a":"2","b":"1"}')
    await clock.advance(20_000)
    expect((await send(url, 'b=1&a=2', form)).cache).toContain('hit')
    await expect.poll(() => warnings.join()).toContain('QUERY /form: a background refresh failed')
    expect(warnings.join()).toContain('rememberRawBody')
  })

  it('is not refreshed with a body that a layer in front changes a second time', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const seen: unknown[] = []
    const app = express().set('env', 'test').use(express.json())
    app.use((req, _res, next) => {
      req.body.page += 1
      next()
    })
    const options = { ttlMs: 10_000, staleWhileRevalidateMs: 60_000 }
    app.use(onExpress({ stampede, methods: CACHED, ...options }))
    app.use((req, res) => {
      seen.push(req.body.page)
      res.json(req.body)
    })
    const url = `http://127.0.0.1:${await listening(createServer(app))}/`
    expect((await send(url, '{"page":1}')).body).toBe('{"page":2}')
    await clock.advance(20_000)
    await send(url, '{"page":1}')
    await expect.poll(() => seen).toEqual([2, 3])
    await expect.poll(() => stampede.stats().active.flights).toBe(0)
    expect((await send(url, '{"page":1}')).body).toBe('{"page":2}')
  })

  it('is not refreshed if JSON has no form for its parsed value', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    let runs = 0
    const app = express().set('env', 'test').use(express.json())
    const options = { ttlMs: 10_000, staleWhileRevalidateMs: 60_000 }
    app.use(onExpress({ stampede, methods: CACHED, ...options }))
    app.use((req, res) => {
      runs += 1
      res.send(String(req.body[0]))
    })
    const url = `http://127.0.0.1:${await listening(createServer(app))}/`
    expect((await send(url, '[1e400]')).body).toBe('Infinity')
    expect((await send(url, '[null]')).body).toBe('null')
    await clock.advance(20_000)
    for (const _ of [1, 2, 3]) expect((await send(url, '[1e400]')).body).toBe('Infinity')
    expect(runs).toBe(2)
  })

  it('is stored over HTTP/2, where each stream ends', async () => {
    const bodies: string[] = []
    const listener = frontOf(async (req, res) => {
      bodies.push(await text(req))
      res.end(`run ${bodies.length}`)
    })
    await using http2 = await serveHttp2(listener as never)
    const ask = async (body: string): Promise<string> => {
      const fields = { ':method': 'QUERY', ':path': '/', 'content-type': 'application/json' }
      const stream = http2.client.request(fields)
      stream.end(body)
      const closed = once(stream, 'close')
      const got = await text(stream)
      await closed
      return got
    }
    expect([await ask('[1]'), await ask('[2]'), await ask('[1]')]).toEqual([
      'run 1',
      'run 2',
      'run 1',
    ])
    expect(bodies).toEqual(['[1]', '[2]'])
  })
})
