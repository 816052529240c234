// stampedeFront on the compatibility objects of node:http2, over real sessions.

import { once } from 'node:events'
import {
  type ClientHttp2Session,
  connect,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Listener, stampedeFront } from './front.ts'
import { deferred } from './testing/deferred.ts'

type Http2Listener = Listener<Http2ServerRequest, Http2ServerResponse>

interface Answer {
  readonly head: IncomingHttpHeaders
  readonly body: string
}

type Ask = (headers?: Record<string, string>) => Promise<Answer>

async function serve(
  listener: Http2Listener,
  options = {},
): Promise<{ ask: Ask; client: ClientHttp2Session }> {
  const server = createServer(stampedeFront(listener, { ttlMs: 60_000, ...options }))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  const ask: Ask = (headers = {}) =>
    new Promise((resolve, reject) => {
      const stream = client.request({ ':path': '/', ...headers }).setEncoding('utf8')
      let [head, body]: [IncomingHttpHeaders, string] = [{}, '']
      stream.on('response', (received) => {
        head = received
      })
      stream.on('data', (chunk) => {
        body += chunk
      })
      stream.on('error', reject).on('end', () => resolve({ head, body }))
    })
  return { ask, client }
}

const statusOf = ({ head }: Answer): string => String(head['cache-status'])

test.each<[string, (res: Http2ServerResponse) => void]>([
  ['end', (res) => void res.end('page')],
  [
    'write',
    (res) => {
      res.write('pa')
      res.end('ge')
    },
  ],
  ['writeHead', (res) => void res.writeHead(200, { link: ['<a>', '<b>'] }).end('page')],
  [
    'setHeader',
    (res) => {
      res.setHeader('link', ['<a>', '<b>'])
      res.end('page')
    },
  ],
])(
  'a hit on HTTP/2 does not run the listener, which wrote the stored response with %s',
  async (way, answer) => {
    const warned = vi.fn()
    process.on('warning', warned)
    onTestFinished(() => void process.off('warning', warned))
    const listener = vi.fn<Http2Listener>((_req, res) => answer(res))
    const { ask } = await serve(listener)
    const miss = await ask()
    const hit = await ask()
    expect([miss.body, hit.body]).toEqual(['page', 'page'])
    expect(statusOf(miss)).toBe('Stampede; fwd=uri-miss; fwd-status=200; stored')
    expect(statusOf(hit)).toMatch(/^Stampede; hit; ttl=5\d$/)
    const link = /Head|Header/.test(way) ? '<a>, <b>' : undefined
    expect([miss.head.link, hit.head.link]).toEqual([link, link])
    expect((await ask({ ':method': 'HEAD' })).head['content-length']).toBe('4')
    expect((await ask({ 'if-none-match': String(hit.head.etag) })).head[':status']).toBe(304)
    expect((await ask({ range: 'bytes=0-1' })).body).toBe('pa')
    expect(listener).toHaveBeenCalledTimes(1)
    expect(warned).not.toHaveBeenCalled()
  },
)

test.each<[string, (res: Http2ServerResponse) => void]>([
  ['end', (res) => void res.end('0123456789')],
  [
    'write',
    (res) => {
      for (const digit of '0123456789') res.write(digit)
      res.end()
    },
  ],
  [
    'a stream',
    (res) => void Readable.from(['01', '234', '56789'].map((text) => Buffer.from(text))).pipe(res),
  ],
])(
  'the first request on HTTP/2 gets its range of a stored or private response written with %s',
  async (_, answer) => {
    const { ask } = await serve((req, res) => {
      res.setHeader('content-length', '10')
      res.setHeader('etag', '"v1"')
      res.setHeader('accept-ranges', 'bytes')
      if (req.url.startsWith('/own')) res.setHeader('cache-control', 'private')
      answer(res)
    })
    for (const path of ['/own', '/page']) {
      const get = (name: string, headers: Record<string, string>) =>
        ask({ ':path': path + name, ...headers })
      const part = await get('1', { range: 'bytes=1-4' })
      expect([part.head[':status'], part.body]).toEqual([206, '1234'])
      expect(part.head).toMatchObject({ 'content-range': 'bytes 1-4/10', 'content-length': '4' })
      expect((await get('2', { range: 'bytes=10-' })).head[':status']).toBe(416)
      const unchanged = await get('3', { 'if-none-match': '"v1"' })
      expect([unchanged.head[':status'], unchanged.body]).toEqual([304, ''])
      for (const name of ['1', '2', '3']) expect((await get(name, {})).body).toBe('0123456789')
    }
  },
)

test('an error of the listener on HTTP/2 causes a 500, or resets a stream that has begun', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  onTestFinished(() => warned.mockRestore())
  const { ask } = await serve(async (req, res) => {
    if (req.url === '/late') res.write('half')
    throw new Error('broken')
  })
  expect((await ask()).head[':status']).toBe(500)
  await expect(ask({ ':path': '/late' })).rejects.toThrow('NGHTTP2_INTERNAL_ERROR')
  expect(warned).toHaveBeenCalledTimes(2)
})

test('the cache key on HTTP/2 contains the host of :authority or of Host', async () => {
  const { ask } = await serve((req, res) => void res.end(`${req.authority} ${req.headers.host}`))
  const own = await ask()
  for (const headers of [
    { ':authority': 'a.test' },
    { ':authority': 'a.test', host: 'b.test' },
    { ':authority': 'b.test' },
  ]) {
    const { body } = await ask(headers)
    expect(body).not.toBe(own.body)
    expect(body.split(' ')).toEqual([headers[':authority'], String(headers.host)])
  }
})

test('waiters on HTTP/2 get the response even if the first client has left', async () => {
  const { promise: open, resolve: release } = deferred()
  let runs = 0
  const { ask, client } = await serve(async (_req, res) => {
    runs += 1
    await open
    res.end('page')
  })
  const first = client.request({ ':path': '/' })
  first.on('error', () => {})
  await expect.poll(() => runs).toBe(1)
  const second = ask()
  first.close()
  await once(first, 'close')
  release()
  expect((await second).body).toBe('page')
  expect(runs).toBe(1)
})
