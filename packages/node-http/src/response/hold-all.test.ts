// A whole response waits for core, and the app sees what it would see without that.

import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Reply } from '@stampede/core/adapter'
import { describe, expect, test } from 'vitest'
import { serve, serveHttp2, startRequest } from '../testing/raw-client.ts'
import { type AttemptObserver, AttemptWatch } from './hold-end.ts'

type AttemptEnd = Parameters<AttemptObserver['onEnd']>[0]
type Handler = (res: ServerResponse) => unknown

const require = createRequire(import.meta.url)
const compression: () => (req: unknown, res: unknown, next: () => void) => void =
  require('compression')

/** Observes a whole response. Core gets its end, and sends it, or `reply`, when the gate opens. */
class Core implements AttemptObserver {
  readonly holdsAll = true
  readonly graceMs = 60_000
  readonly maxBodyBytes: number
  readonly ends: AttemptEnd[] = []
  reply: Reply | undefined
  letGo: () => void = () => {}
  tell: (end: AttemptEnd) => void = () => {}
  readonly told = new Promise<AttemptEnd>((resolve) => {
    this.tell = resolve
  })
  readonly #gate = new Promise<void>((resolve) => {
    this.letGo = resolve
  })

  constructor(maxBodyBytes = 1024) {
    this.maxBodyBytes = maxBodyBytes
  }

  onEnd(end: AttemptEnd): Promise<Reply | undefined> {
    this.ends.push(end)
    this.tell(end)
    return this.#gate.then(() => this.reply)
  }
}

const POST = ['POST / HTTP/1.1', 'Host: a', 'Connection: close', 'Content-Length: 0']

/** Runs a handler whose response core holds. `seen` is its result, `sent` what the client got. */
async function run(handler: Handler, core = new Core()) {
  const arrived: string[] = []
  let seen: unknown
  await using server = await serve((_req, res) => {
    new AttemptWatch(res, core)
    seen = handler(res)
  })
  const client = startRequest(server.port, POST)
  client.setEncoding('latin1').on('data', (data: string) => void arrived.push(data))
  const closed = once(client, 'close')
  const end = await core.told
  const before = arrived.join('')
  core.letGo()
  await closed
  return { end, seen, before, sent: arrived.join('') }
}

const REPLY: Reply = { status: 503, headers: [['x-reply', 'yes']], body: Buffer.from('instead') }

describe('a response that is held', () => {
  test('looks to the handler as without the hold', async () => {
    const look = (res: ServerResponse) => [res.headersSent, res.writableEnded, res.finished]
    const refused: string[] = []
    const attempt = (run: () => unknown) => {
      try {
        run()
      } catch (error) {
        refused.push((error as { code: string }).code)
      }
    }
    const { seen, before, sent } = await run((res) => {
      const looks = [look(res)]
      res.writeHead(201, { 'X-A': '1' })
      looks.push(look(res))
      attempt(() => res.setHeader('x-b', '1'))
      attempt(() => res.writeHead(500))
      res.write('a')
      looks.push(look(res))
      res.end('b')
      looks.push(look(res))
      attempt(() => res.writeHead(500))
      res.end('c')
      return looks
    })
    expect(seen).toEqual([
      [false, false, false],
      [true, false, false],
      [true, false, false],
      [true, true, true],
    ])
    expect(refused).toEqual(Array(3).fill('ERR_HTTP_HEADERS_SENT'))
    expect(before).toBe('')
    expect(sent).toMatch(/^HTTP\/1.1 201 Created\r\nX-A: 1\r\n.*1\r\na\r\n1\r\nb\r\n0\r\n\r\n$/s)
  })

  test.each<[string, Handler, string]>([
    ['an invalid status', (res) => res.writeHead(1_000), 'ERR_HTTP_INVALID_STATUS_CODE'],
    [
      'an invalid implicit status',
      (res) => {
        res.statusCode = 1_000
        res.write('a')
      },
      'ERR_HTTP_INVALID_STATUS_CODE',
    ],
    ['an invalid chunk', (res) => res.write(7 as never), 'ERR_INVALID_ARG_TYPE'],
    ['an invalid last chunk', (res) => res.end({} as never), 'ERR_INVALID_ARG_TYPE'],
  ])('lets the handler catch the error for %s, and respond', async (_, handler, code) => {
    const { seen, sent } = await run((res) => {
      try {
        handler(res)
      } catch (error) {
        if (!res.headersSent) res.statusCode = 500
        res.end('caught')
        return (error as { code: string }).code
      }
    })
    expect(seen).toBe(code)
    expect(sent).toContain('caught')
  })

  test('calls the callbacks of writes before it is sent, and that of end() after it', async () => {
    const calls: string[] = []
    const core = new Core()
    const ran = run((res) => {
      res.write('a', () => {
        calls.push('write')
        res.end(() => void calls.push('end'))
      })
    }, core)
    await core.told
    expect(calls).toEqual(['write'])
    await ran
    expect(calls).toEqual(['write', 'end'])
  })

  test('has the bytes that a buffer had when it was written', async () => {
    const { sent } = await run((res) => {
      const buffer = Buffer.from('first')
      res.write(buffer)
      buffer.fill('x')
      res.end(buffer)
      buffer.fill('y')
    })
    expect(sent).toMatch(/first\r\n5\r\nxxxxx\r\n/)
  })

  test('passes through layers in front and behind as without the hold', async () => {
    const core = new Core()
    const body = 'stampede '.repeat(50)
    await using server = await serve((req, res) => {
      compression()(req, res, () => {
        new AttemptWatch(res, core)
        res.setHeader('content-type', 'text/plain')
        res.write(body)
        res.end()
      })
    })
    core.letGo()
    const got = await fetch(`http://127.0.0.1:${server.port}`, {
      method: 'POST',
      headers: { 'accept-encoding': 'gzip' },
    })
    expect([got.headers.get('content-encoding'), await got.text()]).toEqual(['gzip', body])
  })

  test.each<[string, Handler]>([
    ['end', (res) => res.setHeader('x-own', '1').end('own')],
    ['writeHead', (res) => res.writeHead(201, 'Well', { 'X-Own': '1' }).end('own')],
    ['a status with a fraction', (res) => res.writeHead(200.5).end('own')],
    ['flushHeaders', (res) => [res.flushHeaders(), res.write('ow'), res.end('n')]],
    ['pipe', (res) => Readable.from(['o', 'wn']).pipe(res)],
  ])('is replaced by a reply of core, with nothing of its own: %s', async (_, handler) => {
    const core = new Core()
    core.reply = REPLY
    const { sent } = await run(handler, core)
    expect(sent).toMatch(/^HTTP\/1.1 503 Service Unavailable\r\nx-reply: yes\r\n.*instead$/s)
    expect(sent).not.toMatch(/own/i)
  })

  test('is broken off if the reply of core cannot be sent', async () => {
    const core = new Core()
    core.reply = { status: 200, headers: [['bad name', '']], body: undefined }
    expect((await run((res) => res.end('own'), core)).sent).toBe('')
  })

  test('is broken off if core fails', async () => {
    const core = new Core()
    Object.defineProperty(core, 'reply', { get: () => Promise.reject(new Error('core')) })
    expect((await run((res) => res.end('own'), core)).sent).toBe('')
  })

  test.each<[string, Handler]>([
    ['destroys it', (res) => [res.write('half'), res.destroy()]],
    ['destroys its socket', (res) => [res.write('half'), res.socket?.destroy()]],
    ['sends fewer bytes than its length', (res) => res.setHeader('Content-Length', 9).end('half')],
  ])('fails, and nothing of it is sent, if the handler %s', async (_, handler) => {
    const { end, sent } = await run(handler)
    expect([end.type, sent]).toEqual(['failed', ''])
  })

  test('is not retained, and replaced, as soon as it is too large', async () => {
    const core = new Core(5)
    core.reply = REPLY
    let source: Readable | undefined
    const { end, sent } = await run((res) => {
      // It never ends.
      source = new Readable({ read() {} })
      source.push('123456')
      source.pipe(res)
    }, core)
    expect([end.type, core.ends.length]).toEqual(['not-retained', 1])
    expect(sent).toMatch(/^HTTP\/1.1 503 .*instead$/s)
    source?.destroy()
  })

  test.each([
    [
      'write',
      (res: ServerResponse) => [res.write('4'), res.write('56'), res.write('78'), res.end('9')],
    ],
    ['the last chunk', (res: ServerResponse) => [res.write('45678'), res.end('9')]],
    ['pipe', (res: ServerResponse) => Readable.from(['4', '56', '78', '9']).pipe(res)],
  ])('goes on after the answer of core if it is too large, by %s', async (_, handler) => {
    const { end, before, sent } = await run((res) => {
      res.write('123')
      handler(res)
    }, new Core(5))
    expect([end.type, before]).toEqual(['not-retained', ''])
    const chunks = sent.matchAll(/^[0-9a-f]+\r\n(.*)\r\n/gm)
    expect([...chunks].map(([, chunk]) => chunk).join('')).toBe('123456789')
    expect(sent).toMatch(/0\r\n\r\n$/)
  })

  test('is sent whole if its connection is destroyed meanwhile, as by server.close()', async () => {
    const length = 8 * 1024 * 1024
    const { sent } = await run((res) => {
      const { socket } = res
      res.setHeader('Content-Length', length).end('x'.repeat(length))
      socket?.destroy()
    }, new Core(length))
    expect(sent.split('\r\n\r\n')[1]?.length).toBe(length)
  })

  test('closes the connection of a client that has left meanwhile', async () => {
    const core = new Core()
    const sockets: Socket[] = []
    await using server = await serve((_req, res) => {
      new AttemptWatch(res, core)
      if (res.socket) sockets.push(res.socket)
      res.end('late')
    })
    const client = startRequest(server.port, POST)
    await core.told
    const [socket] = sockets as [Socket]
    client.end()
    await once(socket, 'finish')
    const closed = once(socket, 'close')
    core.letGo()
    await closed
  })

  test('is reported when its client has left, by the end of the handler', async () => {
    const core = new Core()
    let finish = (): void => {}
    await using server = await serve((_req, res) => {
      new AttemptWatch(res, core)
      res.write('the first ')
      finish = () => res.end('half')
      res.once('close', () => setImmediate(finish))
      client.destroy()
    })
    const client = startRequest(server.port, POST)
    const end = await core.told
    expect(end.type === 'complete' && Buffer.from(end.body).toString()).toBe('the first half')
    core.letGo()
  })

  test('sends no early hints', async () => {
    const { sent } = await run((res) => {
      let called = false
      res.writeEarlyHints({ link: '</a.css>; rel=preload' }, () => {
        called = true
      })
      setImmediate(() => res.end(String(called)))
    })
    expect(sent).toMatch(/^HTTP\/1.1 200 .*true$/s)
  })

  test('is held on HTTP/2, too', async () => {
    const core = new Core()
    const looks: unknown[] = []
    await using http2 = await serveHttp2((_req, res) => {
      new AttemptWatch(res as unknown as ServerResponse, core)
      res.setHeader('x-own', '1')
      res.write('a')
      looks.push(res.headersSent, res.writableEnded)
      expect(() => res.setHeader('x-late', '1')).toThrow()
      res.end('b')
      looks.push(res.headersSent, res.writableEnded)
    })
    const stream = http2.client.request({ ':method': 'POST' })
    let heads = 0
    stream.on('response', () => {
      heads += 1
    })
    stream.end()
    await core.told
    expect([looks, heads]).toEqual([[true, false, true, true], 0])
    core.letGo()
    expect(await text(stream)).toBe('ab')
  })

  test.each<[string, Handler]>([
    ['end', (res) => res.end('own')],
    ['write', (res) => [res.write('o'), res.addTrailers({ 'x-own': '1' }), res.end('wn')]],
  ])('is replaced by a reply of core on HTTP/2, too: %s', async (_, handler) => {
    const core = new Core()
    core.reply = REPLY
    core.letGo()
    await using http2 = await serveHttp2((_req, res) => {
      new AttemptWatch(res as unknown as ServerResponse, core)
      handler(res as unknown as ServerResponse)
    })
    const stream = http2.client.request({ ':method': 'POST' }).end()
    const [head] = await once(stream, 'response')
    expect([head[':status'], await text(stream)]).toEqual([503, 'instead'])
  })

  test('is the response to its own request if requests are pipelined', async () => {
    const cores = [new Core(), new Core()]
    let runs = 0
    await using server = await serve((_req, res) => {
      const core = cores[runs++] as Core
      new AttemptWatch(res, core)
      res.write(`response ${runs}`)
      res.end()
    })
    cores[1]?.letGo()
    setImmediate(() => cores[0]?.letGo())
    const [keep, last] = [POST.filter((line) => !line.startsWith('Connection')), POST]
    const client = startRequest(server.port, [...keep, '', ...last])
    const sent = await text(client.setEncoding('latin1'))
    expect(sent.match(/response \d/g)).toEqual(['response 1', 'response 2'])
  })
})
