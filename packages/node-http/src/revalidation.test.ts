// Apps respond to a detached request as to a real one. Each app runs once without a client, with a
// capture on the detached response. The result is compared with that of a real client.

import { AsyncResource } from 'node:async_hooks'
import { once } from 'node:events'
import { type IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { OriginEnd, OriginObserver } from '@stampede/core/adapter'
import type { Express, RequestHandler } from 'express'
import type Koa from 'koa'
import { describe, expect, test } from 'vitest'
import { Capture } from './response/capture.ts'
import { createDetachedPair, redispatch, tlsMembersOf } from './revalidation.ts'
import { rawRequest, serve } from './testing/raw-client.ts'

const captureResponse = (
  res: ServerResponse,
  observer: Omit<OriginObserver, 'ended'>,
): Promise<OriginEnd> => new Promise((ended) => new Capture(res, { ...observer, ended }))

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const EXPRESS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]
const KOA: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]
const bodyParser: { json(): RequestHandler } = require('body-parser')
const FILE = fileURLToPath(import.meta.url)
const LARGE = 'stampede '.repeat(20_000)

/** Serves one real request, and passes it on after its client has got a response and left. */
async function realRequest(fields: readonly string[] = []): Promise<IncomingMessage> {
  let seen: IncomingMessage | undefined
  await using server = await serve((req, res) => {
    seen = req
    void req.socket.remoteAddress
    tlsMembersOf(req)
    res.end()
  })
  await rawRequest(server.port, '/shop?x=1', fields)
  if (seen === undefined) throw new Error('no request came')
  return seen
}

/** The complete result of a listener that runs without a client. */
async function runDetached(listener: RequestListener, target = '/'): Promise<OriginEnd> {
  const { req, res } = createDetachedPair(await realRequest(), target)
  const end = captureResponse(res, {
    maxBodyBytes: 10_000_000,
    onHead: () => ({ action: 'send', capture: true, add: [], remove: [] }),
  })
  const finished = once(res, 'finish')
  listener(req, res)
  await finished
  return end
}

function textOf(end: OriginEnd): string {
  if (end.type !== 'complete') throw new Error(JSON.stringify(end))
  return Buffer.from(end.body).toString()
}

const HANDLERS: ReadonlyArray<readonly [string, RequestHandler]> = [
  ['json', (_req, res) => void res.json({ hello: 'world' })],
  ['send', (_req, res) => void res.send('hello')],
  ['write and end', (_req, res) => void [res.write(LARGE), res.end('!')]],
  ['a piped stream', (_req, res) => void Readable.from([LARGE, LARGE]).pipe(res)],
  ['sendFile', (_req, res) => void res.sendFile(FILE)],
  ['redirect', (_req, res) => void res.redirect('/elsewhere')],
  ['status alone', (_req, res) => void res.sendStatus(404)],
]

describe.each(EXPRESS)('an app on %s', (_, express) => {
  test.each(HANDLERS)(
    'responds to a background refresh as to a real request: %s',
    async (_name, handler) => {
      const app = express()
      app.get('/', handler)
      const detached = textOf(await runDetached(app))
      await using server = await serve(app)
      const real = await fetch(`http://127.0.0.1:${server.port}/`, { redirect: 'manual' })
      expect(detached).toBe(await real.text())
    },
  )

  test.each(HANDLERS)(
    'responds to a background refresh through compression: %s',
    async (_name, handler) => {
      const app = express()
      app.use(compression())
      app.get('/', handler)
      expect((await runDetached(app)).type).toBe('complete')
    },
  )

  test('responds to a background refresh with 500 after an error', async () => {
    const app = express()
    app.set('env', 'test')
    app.get('/', (_req, _res, next) => next(new Error('broken')))
    expect(await runDetached(app)).toMatchObject({ type: 'complete', head: { status: 500 } })
  })

  test('parses the missing body of a background refresh', async () => {
    const app = express()
    app.use(bodyParser.json())
    app.get('/', (req, res) => void res.json({ ip: req.ip }))
    expect(textOf(await runDetached(app))).toBe('{"ip":"127.0.0.1"}')
  })
})

const BODIES: ReadonlyArray<readonly [string, () => unknown]> = [
  ['a string', () => 'hello'],
  ['a Buffer', () => Buffer.from('hello')],
  ['an object', () => ({ hello: 'world' })],
  ['a stream', () => Readable.from([LARGE, LARGE])],
  ['null', () => null],
]

describe.each(KOA)('an app on %s', (_, Application) => {
  test.each(BODIES)(
    'responds to a background refresh as to a real request: %s',
    async (_name, make) => {
      const app = new Application()
      app.use((ctx) => {
        ctx.body = make()
      })
      const detached = textOf(await runDetached(app.callback()))
      await using server = await serve(app.callback())
      expect(detached).toBe(await (await fetch(`http://127.0.0.1:${server.port}/`)).text())
    },
  )
})

describe('a background refresh', () => {
  test('has a GET request with the fields and address of the client, without conditions', async () => {
    const real = await realRequest([
      'If-None-Match: "1"',
      'Range: bytes=0-1',
      'X-Tag: a',
      'Upgrade: x',
    ])
    const { req, res } = createDetachedPair(real, '/shop?x=1')
    expect(res).toBeInstanceOf(ServerResponse)
    expect([req.method, req.url, req.httpVersion]).toEqual(['GET', '/shop?x=1', '1.1'])
    expect(req.headers).toEqual({ host: 'shop.test:8080', 'x-tag': 'a' })
    expect(req.rawHeaders).toEqual(['Host', 'shop.test:8080', 'X-Tag', 'a'])
    expect(req.headersDistinct).toEqual({ host: ['shop.test:8080'], 'x-tag': ['a'] })
    expect(req.socket.remoteAddress).toBe('127.0.0.1')
  })

  test('has a request body that has already ended', async () => {
    const { req } = createDetachedPair(await realRequest(), '/')
    const chunks = await req.toArray()
    expect(chunks).toEqual([])
  })

  test('accepts any amount of response data without back-pressure, and closes after the end', async () => {
    const { req, res } = createDetachedPair(await realRequest(), '/')
    const aborted = once(req, 'aborted', { signal: AbortSignal.timeout(50) }).then(
      () => true,
      () => false,
    )
    expect(res.write(Buffer.alloc(5_000_000))).toBe(true)
    expect(res.write(Buffer.alloc(5_000_000))).toBe(true)
    const closed = once(res, 'close')
    res.end()
    await closed
    expect(res.writableFinished).toBe(true)
    expect(await aborted).toBe(false)
  })

  test('ends as incomplete if the handler destroys the response', async () => {
    const { res } = createDetachedPair(await realRequest(), '/')
    const end = captureResponse(res, {
      maxBodyBytes: 10,
      onHead: () => ({ action: 'send', capture: true, add: [], remove: [] }),
    })
    res.write('x')
    res.destroy()
    expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  })
})

describe('a detached QUERY', () => {
  const TYPE = 'Content-Type: application/json; charset=utf-8'

  test('has the body, with its length and its type, for parsers and streams', async () => {
    const body = Buffer.from('{"q":"Zoë"}')
    const { req, res } = createDetachedPair(await realRequest([TYPE]), '/', body)
    expect(req).toMatchObject({
      method: 'QUERY',
      headers: { 'content-type': TYPE.slice(14), 'content-length': '12' },
      headersDistinct: { 'content-length': ['12'] },
    })
    expect(req.rawHeaders.join('|')).toContain('content-length|12')
    await new Promise<unknown>((done) => bodyParser.json()(req as never, res as never, done))
    expect(Reflect.get(req, 'body')).toEqual({ q: 'Zoë' })
  })

  test('ends at once if its body is empty', async () => {
    const { req } = createDetachedPair(await realRequest([TYPE]), '/', Buffer.alloc(0))
    expect(await text(req)).toBe('')
  })

  test('fails if the bodies of running refreshes have more than 64 MiB', async () => {
    const from = await realRequest([TYPE])
    const waiting: ServerResponse[] = []
    const refresh = (mebibytes: number) =>
      new Promise<OriginEnd>((ended) => {
        const observer = { ended } as unknown as OriginObserver
        const dispatch = (_req: unknown, res: ServerResponse) => void waiting.push(res)
        const context = new AsyncResource('test')
        const body = Buffer.alloc(mebibytes * 1024 * 1024)
        const target = { from, target: '/', chosenBy: undefined, owner: {} }
        const order = { ...target, body, isParsed: false, observer }
        redispatch({ ...order, dispatch, context })
      })
    const first = refresh(40)
    expect(await refresh(40)).toMatchObject({ type: 'failed', status: 503 })
    expect(waiting.length).toBe(1)
    waiting[0]?.destroy()
    expect(await first).toMatchObject({ type: 'failed', status: 500 })
    void refresh(40)
    expect(waiting.length).toBe(2)
    waiting[1]?.destroy()
  })
})
