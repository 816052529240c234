// stampedeFront around plain listeners: which requests reach them, and the handling of their
// errors.

import { once } from 'node:events'
import {
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { createStampede, type Stampede } from '@stampede/core'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { type Listener, stampedeFront } from './front.ts'
import { fieldOf, rawRequest, serve, startRequest } from './testing/raw-client.ts'

const statusOf = (response: Parameters<typeof fieldOf>[0]): string =>
  fieldOf(response, 'cache-status').join(', ')

const page: Listener = (_req, res) => void (res as ServerResponse).end('page')

/** Warnings of the process, which are not printed. */
function warnings() {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  onTestFinished(() => warned.mockRestore())
  return warned
}

describe('the listener of stampedeFront', () => {
  test('is called on the server, as Node does, on a miss, a bypass and a refresh', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const owners: unknown[] = []
    const listener = function (this: unknown, _req: IncomingMessage, res: ServerResponse) {
      owners.push(this)
      res.end('page')
    }
    const options = { stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000 }
    const server = createServer(stampedeFront(listener, options))
    onTestFinished(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    await rawRequest(port, '/a')
    await rawRequest(port, '/a', ['Authorization: x'])
    await clock.advance(2_000)
    await rawRequest(port, '/a')
    await expect.poll(() => owners).toHaveLength(3)
    expect(owners.every((owner) => owner === server)).toBe(true)
  })

  test('gets the request and response objects of the server, on misses and bypasses', async () => {
    const given: unknown[][] = []
    const front = stampedeFront(
      (req, res) => {
        given.push([req, res])
        res.end('page')
      },
      { ttlMs: 60_000 },
    )
    const made: unknown[][] = []
    const server = await serve((req, res) => {
      made.push([req, res])
      front(req, res)
    })
    await using _ = server
    await rawRequest(server.port)
    await rawRequest(server.port, '/', ['Cookie: a=1'])
    expect(given).toHaveLength(2)
    for (const [i, pair] of given.entries())
      for (const [j, one] of pair.entries()) expect(one).toBe(made[i]?.[j])
  })

  test.each<[string, (res: ServerResponse) => unknown]>([
    ['res.destroy()', (res) => res.destroy(new Error('broken'))],
    ['the destroy() of its socket', (res) => res.socket?.destroy()],
  ])('runs again if it ended the last response and then called %s', async (_, destroy) => {
    const runs = vi.fn((_req, res) => {
      res.end('Error')
      destroy(res as ServerResponse)
    })
    await using server = await serve(stampedeFront(runs, { ttlMs: 60_000 }))
    for (const _ of [1, 2]) await rawRequest(server.port).catch(() => {})
    expect(runs).toHaveBeenCalledTimes(2)
  })

  test('does not run again if a client has left, and the response is complete', async () => {
    const runs = vi.fn(async (_req, res) => {
      await once(res, 'close')
      res.end('page')
      res.destroy()
    })
    await using server = await serve(stampedeFront(runs, { ttlMs: 60_000 }))
    const leaving = startRequest(server.port, ['GET / HTTP/1.1', 'Host: shop.test:8080'])
    await vi.waitFor(() => expect(runs).toHaveBeenCalled())
    leaving.destroy()
    await once(leaving, 'close')
    const response = await rawRequest(server.port)
    expect(statusOf(response)).toMatch(/hit/)
    expect(runs).toHaveBeenCalledTimes(1)
  })
})

describe('callbacks of stampedeFront', () => {
  test('get the request, and also the response if there is one', async () => {
    const stampede = createStampede()
    let runs = 0
    const front = stampedeFront((_req, res) => res.end(`run ${++runs}`), {
      stampede,
      ttlMs: 60_000,
      key: (req) => req.url?.split('?')[0] ?? '/',
      identity: (req) => String(req.headers['x-user']),
      bypass: (req) => req.url === '/live',
      tags: (req, res) => [`path:${req.url}`, `status:${res.statusCode}`],
    })
    await using server = await serve(front)
    const ask = async (path: string, user: string) =>
      (await rawRequest(server.port, path, [`X-User: ${user}`])).body
    expect([await ask('/a?x=1', 'ann'), await ask('/a?x=2', 'ann')]).toEqual(['run 1', 'run 1'])
    expect(await ask('/a', 'bob')).toBe('run 2')
    expect([await ask('/live', 'ann'), await ask('/live', 'ann')]).toEqual(['run 3', 'run 4'])
    await stampede.purge({ tag: 'path:/a?x=1' })
    expect([await ask('/a', 'ann'), await ask('/a', 'bob')]).toEqual(['run 5', 'run 2'])
    await stampede.purge({ tag: 'status:200' })
    expect(await ask('/a', 'bob')).toBe('run 6')
  })

  test('cause a 500 and a warning with the name of the option if they throw', async () => {
    const warned = warnings()
    const listener = vi.fn(page)
    const key = () => {
      throw new Error('no key')
    }
    await using server = await serve(stampedeFront(listener, { key }))
    const answer = await rawRequest(server.port)
    expect([answer.head[0], listener.mock.calls.length]).toEqual([
      'HTTP/1.1 500 Internal Server Error',
      0,
    ])
    expect(String(warned.mock.calls[0]?.[0])).toContain(
      'stampedeCache.key: the function threw: no key',
    )
  })
})

describe('an error of the listener', () => {
  const thrown = (error: unknown) => () => {
    throw error
  }
  const CASES: ReadonlyArray<readonly [string, Listener]> = [
    ['a thrown Error', thrown(new Error('broken'))],
    ['a rejected promise', async () => thrown(new Error('broken'))()],
    ['a thrown string', thrown('broken')],
  ]
  /** A hit reaches none of these. */
  const WAYS: ReadonlyArray<readonly [string, string, readonly string[]]> = [
    ['on a miss', 'GET', []],
    ['on a bypass', 'GET', ['Cookie: a=1']],
    ['on a POST', 'POST', ['Content-Length: 0']],
  ]

  for (const [what, listener] of CASES) {
    test.each(WAYS)(`causes a 500 and a warning %s: ${what}`, async (_, method, fields) => {
      const warned = warnings()
      const rejected = vi.fn()
      process.on('unhandledRejection', rejected)
      onTestFinished(() => void process.off('unhandledRejection', rejected))
      const front = stampedeFront(
        (req, res) => {
          res.setHeader('Set-Cookie', 'half=1')
          res.setHeader('Content-Length', '4711')
          return listener(req, res)
        },
        { ttlMs: 60_000 },
      )
      await using server = await serve(front)
      for (const round of [1, 2]) {
        const answer = await rawRequest(server.port, `/${round}`, fields, method)
        expect(answer.head[0]).toBe('HTTP/1.1 500 Internal Server Error')
        expect(answer.body).toContain('Internal Server Error')
        expect(fieldOf(answer, 'set-cookie')).toEqual([])
        expect(statusOf(answer)).not.toContain('stored')
      }
      expect(warned.mock.calls.map(([warning]) => String(warning))).toEqual(
        Array(2).fill(expect.stringContaining('broken')),
      )
      expect(rejected).not.toHaveBeenCalled()
    })
  }

  test('is reported with its stack and the URL of the request, without the query', async () => {
    const warned = warnings()
    const error = new TypeError('broken', { cause: new Error('below') })
    const front = stampedeFront((req) => {
      req.url = '/elsewhere'
      throw error
    })
    await using server = await serve(front)
    await rawRequest(server.port, '/a/b?token=secret')
    expect(warned.mock.calls).toEqual([
      [
        'GET /a/b: broken',
        {
          type: 'StampedeFrontWarning',
          code: 'STAMPEDE_FRONT',
          detail: expect.stringMatching(
            /^TypeError: broken\n +at .*front\.test\.ts.*Error: below/s,
          ),
        },
      ],
    ])
  })

  test.each([undefined, null, Object.create(null), Symbol('broken')])(
    'may be any value, such as undefined or a symbol: %#',
    async (value) => {
      const warned = warnings()
      const front = stampedeFront(async () => Promise.reject(value))
      await using server = await serve(front)
      const answer = await rawRequest(server.port)
      expect(answer.head[0]).toBe('HTTP/1.1 500 Internal Server Error')
      expect(warned).toHaveBeenCalledTimes(1)
    },
  )

  test('breaks off a response that has begun, and nothing of the response is stored', async () => {
    const warned = warnings()
    let runs = 0
    const front = stampedeFront(
      async (_req, res) => {
        runs += 1
        if (runs > 1) return void res.end('whole')
        await new Promise((resolve) => res.write('half', resolve))
        throw new Error('broken')
      },
      { ttlMs: 60_000 },
    )
    await using server = await serve(front)
    const first = await rawRequest(server.port)
    expect(first.head[0]).toBe('HTTP/1.1 200 OK')
    expect(first.body).not.toContain('\r\n0\r\n')
    expect((await rawRequest(server.port)).body).toBe('whole')
    expect(warned).toHaveBeenCalledTimes(1)
  })

  test('does not change a stale response if the error occurs in a background refresh', async () => {
    const warned = warnings()
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    let runs = 0
    const front = stampedeFront(
      async (_req, res) => {
        runs += 1
        if (runs === 2) throw new Error('broken')
        res.end(`run ${runs}`)
      },
      { stampede, ttlMs: 10_000, staleWhileRevalidateMs: 600_000, staleIfErrorMs: 600_000 },
    )
    await using server = await serve(front)
    await rawRequest(server.port)
    await clock.advance(11_000)
    expect((await rawRequest(server.port)).body).toBe('run 1')
    await expect.poll(() => stampede.stats().fills.failed).toBe(1)
    expect((await rawRequest(server.port)).body).toBe('run 1')
    // One event of the front, with the stack, and one of the refresh.
    expect(warned).toHaveBeenCalledTimes(2)
  })

  test('serves the stale entry for an error page whose first head Node refused', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    let runs = 0
    const front = stampedeFront(
      (_req, res) => {
        runs += 1
        if (runs === 1) return void res.end('page')
        try {
          res.writeHead(500, { 'X-Error': 'a\nb' })
        } catch {
          res.writeHead(500).end('sorry')
        }
      },
      { stampede, ttlMs: 10_000, staleIfErrorMs: 600_000 },
    )
    await using server = await serve(front)
    await rawRequest(server.port)
    await clock.advance(11_000)
    for (const _ of [1, 2]) expect((await rawRequest(server.port)).body).toBe('page')
    // A new page without an entry gives the error page, and no pass is remembered.
    for (const _ of [1, 2]) {
      const response = await rawRequest(server.port, '/new')
      expect(response.body).toContain('sorry')
      expect(statusOf(response)).toContain('fwd=uri-miss')
    }
  })

  test('causes only a warning if the response is already complete', async () => {
    const warned = warnings()
    // More than a socket accepts at once.
    const body = 'x'.repeat(8_000_000)
    const front = stampedeFront(
      async (_req, res) => {
        res.end(body)
        throw new Error('afterwards')
      },
      { ttlMs: 60_000 },
    )
    await using server = await serve(front)
    const answer = await rawRequest(server.port)
    expect([answer.head[0], answer.body.length]).toEqual(['HTTP/1.1 200 OK', body.length])
    expect(warned).toHaveBeenCalledTimes(1)
  })
})

describe('a request that the cache cannot serve', () => {
  async function listening(listener: RequestListener) {
    const server = createServer(listener)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close().closeAllConnections())
    return { server, port: (server.address() as AddressInfo).port }
  }

  test('goes to the upgrade handler of the server if it is an upgrade', async () => {
    const listener = vi.fn(page)
    const { server, port } = await listening(stampedeFront(listener, { ttlMs: 60_000 }))
    server.on('upgrade', (_req, socket) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n')
    })
    const asked = get({ port, headers: { Upgrade: 'echo', Connection: 'Upgrade' } })
    const [answer] = (await once(asked, 'upgrade')) as [IncomingMessage]
    expect([answer.statusCode, listener.mock.calls.length]).toEqual([101, 0])
  })

  test('goes to the listener if it is an upgrade and the server has no upgrade handler', async () => {
    const listener = vi.fn(page)
    const { port } = await listening(stampedeFront(listener, { ttlMs: 60_000 }))
    for (const _ of [1, 2]) {
      const fields = ['Upgrade: echo', 'Connection: Upgrade']
      expect(statusOf(await rawRequest(port, '/', fields))).toContain('fwd=bypass; detail=upgrade')
    }
    expect(listener).toHaveBeenCalledTimes(2)
  })

  test('goes to the connect handler of the server if its method is CONNECT', async () => {
    const { server, port } = await listening(stampedeFront(page, { ttlMs: 60_000 }))
    server.on('connect', (_req, socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\nthrough'))
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.write('CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n')
    let text = ''
    for await (const chunk of socket) text += chunk
    expect(text).toMatch(/through$/)
  })

  test('gets 100 Continue if it has Expect: 100-continue', async () => {
    const front: RequestListener = stampedeFront(
      async (req, res) => {
        let text = ''
        for await (const chunk of req) text += chunk
        res.end(text.toUpperCase())
      },
      { ttlMs: 60_000 },
    )
    for (const asks of [false, true]) {
      const { server, port } = await listening(front)
      // This app handles `Expect: 100-continue` itself.
      if (asks)
        server.on('checkContinue', (req, res) => {
          res.writeContinue()
          front(req, res)
        })
      const asked = request({ port, method: 'POST', headers: { Expect: '100-continue' } })
      asked.flushHeaders()
      await once(asked, 'continue')
      asked.end('body')
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      expect(String((await answer.toArray())[0])).toBe('BODY')
    }
  })
})

describe('stampedeFront', () => {
  test.each([undefined, { handle() {} }, '/a'])('rejects %o in place of a listener', (listener) => {
    expect(() => stampedeFront(listener as unknown as Listener)).toThrow(
      /^stampedeFront: received .*; pass an Express app, app.callback\(\) of Koa, or any/,
    )
  })

  test('rejects invalid options at creation', () => {
    const options = { ttl: 5 } as object
    expect(() => stampedeFront(page, options)).toThrow('did you mean ttlMs?')
    expect(() =>
      stampedeFront(page, createStampede() as unknown as { stampede: Stampede }),
    ).toThrow('pass it among the options')
  })
})
