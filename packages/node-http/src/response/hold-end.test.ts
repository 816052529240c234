// The end of a response waits for core, without a visible difference for the app, other layers and
// the client.

import { once } from 'node:events'
import { type RequestListener, ServerResponse } from 'node:http'
import { connect, createServer } from 'node:http2'
import { createRequire } from 'node:module'
import type { AddressInfo, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test, vi } from 'vitest'
import { deferred } from '../testing/deferred.ts'
import { rawRequest, serve, startRequest } from '../testing/raw-client.ts'
import { type AttemptObserver, AttemptWatch } from './hold-end.ts'

type AttemptEnd = Parameters<AttemptObserver['onEnd']>[0]

type Layer = (req: unknown, res: ServerResponse, next: () => void) => void
type Handler = (res: ServerResponse, ...rest: Parameters<RequestListener>) => unknown

const require = createRequire(import.meta.url)
const onHeaders: (res: ServerResponse, listener: (this: ServerResponse) => void) => void =
  require('on-headers')
interface Held {
  readonly res: ServerResponse
  readonly client: Socket
  /** Calls to core, in order. */
  readonly ends: AttemptEnd[]
  /** Resolves when core is called. */
  readonly told: Promise<AttemptEnd>
  received(): string
  /** Releases the end, and waits until the client has it. */
  release(): Promise<string>
  letGo(): void
}

interface Setup {
  outer?: Layer
  inner?: Layer
  maxBodyBytes?: number
  graceMs?: number
  fields?: readonly string[]
}

/** One request whose handler has begun. */
async function hold(
  handler: Handler,
  use: (held: Held) => Promise<void>,
  setup: Setup = {},
): Promise<void> {
  const ends: AttemptEnd[] = []
  const { promise: gate, resolve: letGo } = deferred()
  const { promise: told, resolve: tell } = deferred<AttemptEnd>()
  const { promise: arrival, resolve: arrive } = deferred<ServerResponse>()
  const pass: Layer = (_req, _res, next) => next()
  await using server = await serve((req, res) => {
    const { outer = pass, inner = pass } = setup
    outer(req, res, () => {
      new AttemptWatch(res, {
        holdsAll: false,
        maxBodyBytes: setup.maxBodyBytes ?? 1024,
        graceMs: setup.graceMs ?? 60_000,
        onEnd(end) {
          ends.push(end)
          tell(end)
          return gate.then(() => undefined)
        },
      })
      inner(req, res, () => {
        handler(res, req, res)
        arrive(res)
      })
    })
  })
  const client = startRequest(server.port, [
    'POST / HTTP/1.1',
    'Host: shop.test:8080',
    'Connection: close',
    ...(setup.fields ?? []),
  ])
  let text = ''
  client.setEncoding('latin1').on('data', (data: string) => {
    text += data
  })
  const closed = once(client, 'close')
  const release = async (): Promise<string> => {
    letGo()
    await closed
    return text
  }
  try {
    await use({ res: await arrival, client, ends, told, received: () => text, release, letGo })
  } finally {
    letGo()
    client.destroy()
  }
}

function textOf(end: AttemptEnd | undefined): string {
  if (end?.type !== 'complete') throw new Error(JSON.stringify(end))
  return Buffer.from(end.body).toString()
}

function statusOf(end: AttemptEnd | undefined): number | undefined {
  return end?.type === 'complete' || end?.type === 'not-retained' ? end.head.status : undefined
}

const withoutDate = (text: string): string => text.replace(/^date:.*\r\n/im, '')

/** The chunks of a chunked body. From Node 26 on, the writes of one turn are in one chunk. */
function chunksOf(text: string): string[] {
  const [, body = ''] = text.split(/\r\n\r\n(.*)/s)
  const chunks: string[] = []
  for (let at = 0; at < body.length; ) {
    const start = body.indexOf('\r\n', at) + 2
    const size = Number.parseInt(body.slice(at, start), 16)
    chunks.push(body.slice(start, start + size))
    at = start + size + 2
  }
  return chunks
}

/** A response without its date, and without the borders of its chunks. */
function asSent(text: string): string {
  const [head = ''] = withoutDate(text).split('\r\n\r\n')
  if (!/transfer-encoding: chunked/i.test(head)) return withoutDate(text)
  return [head, chunksOf(text).join('')].join('\r\n\r\n')
}

/** Enough time for anything that is not held to arrive. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await turn()
}

const EMPTY_POST = ['POST / HTTP/1.1', 'Host: a', 'Content-Length: 0']

const WAYS: ReadonlyArray<readonly [string, Handler, string]> = [
  ['end', (res) => res.end('hello'), 'hello'],
  ['end with a buffer', (res) => res.end(Buffer.from([0, 255])), Buffer.from([0, 255]).toString()],
  ['end with an encoding', (res) => res.end('68656c6c6f', 'hex'), 'hello'],
  ['end alone', (res) => res.end(), ''],
  ['end with a callback', (res) => res.end(() => {}), ''],
  ['204', (res) => res.writeHead(204).end(), ''],
  ['fields and end', (res) => res.setHeader('X-A', ['1', '2']).end('hello'), 'hello'],
  ['writeHead', (res) => res.writeHead(201, { 'X-A': '1' }).end('hello'), 'hello'],
  ['writeHead with a reason', (res) => res.writeHead(201, 'Well', { 'X-A': '1' }).end('a'), 'a'],
  ['writeHead, flat', (res) => res.writeHead(201, ['X-A', '1', 'X-A', '2']).end('a'), 'a'],
  [
    'a status and a message',
    (res) => Object.assign(res, { statusCode: 422, statusMessage: 'No' }).end('a'),
    'a',
  ],
  ['write and end', (res) => [res.write('hel'), res.write('lo'), res.end('!')], 'hello!'],
  ['flushHeaders', (res) => [res.flushHeaders(), res.end('hello')], 'hello'],
  ['pipe', (res) => Readable.from(['hel', 'lo']).pipe(res), 'hello'],
  ['a length', (res) => res.setHeader('Content-Length', 5).end('hello'), 'hello'],
]

describe('a response whose end is held', () => {
  test('has the bytes that the buffer had when end() was called', () => {
    const buffer = Buffer.from('hello')
    return hold(
      (res) => {
        res.end(buffer)
        buffer.fill('x')
      },
      async ({ release }) => expect(await release()).toMatch(/hello$/),
    )
  })
})

describe('the response object while its end is held', () => {
  test('looks ended, and is an ordinary ServerResponse afterwards', () =>
    hold(
      (res) => res.setHeader('X-A', '1').end('hello'),
      async ({ res, told, release }) => {
        await told
        const look = () => [res.headersSent, res.writableEnded, res.finished]
        expect(look()).toEqual([true, true, true])
        expect(res.writableFinished).toBe(false)
        await release()
        expect(look()).toEqual([true, true, true])
        expect(res.writableFinished).toBe(true)
        for (const name of ['headersSent', 'writableEnded', 'writableFinished', 'setHeader'])
          expect(Object.hasOwn(res, name), name).toBe(false)
      },
    ))

  test.each<[string, (res: ServerResponse) => unknown]>([
    ['setHeader', (res) => res.setHeader('X-A', '2')],
    ['appendHeader', (res) => res.appendHeader('X-A', '2')],
    ['removeHeader', (res) => res.removeHeader('X-A')],
    ['writeHead', (res) => res.writeHead(500)],
  ])('throws ERR_HTTP_HEADERS_SENT for %s', (_, change) =>
    hold(
      (res) => res.setHeader('X-A', '1').end('hello'),
      async ({ res, told, release }) => {
        await told
        expect(() => change(res)).toThrow(
          expect.objectContaining({ code: 'ERR_HTTP_HEADERS_SENT' }),
        )
        expect(await release()).toMatch(/^HTTP\/1\.1 200 OK\r\nX-A: 1\r\n[\s\S]*hello$/)
      },
    ),
  )

  test('ignores a second response, and calls its callbacks', () =>
    hold(
      (res) => res.setHeader('Content-Length', 5).end('hello'),
      async ({ res, told, release, ends }) => {
        await told
        res.statusCode = 500
        res.statusMessage = 'Oh'
        res.flushHeaders()
        expect(res.write('another')).toBe(true)
        await new Promise<void>((resolve) => res.end('another', resolve))
        await new Promise((resolve) =>
          Readable.from(['x']).pipe(res, { end: false }).once('unpipe', resolve),
        )
        expect(await release()).toMatch(/^HTTP\/1\.1 200[\s\S]*\r\n\r\nhello$/)
        expect(ends).toHaveLength(1)
      },
    ))

  test.each<[string, Handler]>([
    ['with its end', (res) => res.setHeader('X-A', '1').end('hello')],
    ['in pieces', (res) => [res.setHeader('X-A', '1'), res.write('hel'), res.end('lo')]],
  ])('begins with its own head, sent %s, if flushHeaders() of Node is called', (_, handler) =>
    hold(handler, async ({ res, told, release }) => {
      await told
      ServerResponse.prototype.flushHeaders.call(res)
      const text = await release()
      expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\nX-A: 1\r\n/)
      expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1)
      expect(asSent(text)).toMatch(/hello$/)
    }),
  )

  test('hides a later statusCode from outer middlewares', () => {
    const statuses: number[] = []
    const outer: Layer = (_req, res, next) => {
      const { end } = res
      const own = (...args: unknown[]): unknown => {
        statuses.push(res.statusCode)
        return Reflect.apply(end, res, args)
      }
      Object.assign(res, { end: own })
      next()
    }
    return hold(
      (res) => Object.assign(res, { statusCode: 201 }).end('hello'),
      async ({ res, told, release }) => {
        await told
        res.statusCode = 500
        expect(await release()).toMatch(/^HTTP\/1\.1 201/)
        expect(statuses).toEqual([201])
      },
      { outer },
    )
  })

  test('is destroyed after the end if the socket is destroyed without an error', () =>
    hold(
      (res, req) => {
        res.end('hello')
        // finalhandler does the same with an error after the response.
        req.socket.destroy()
      },
      async ({ release, res }) => {
        expect(await release()).toMatch(/hello$/)
        expect(res.destroyed).toBe(true)
      },
    ))

  test('is destroyed at once if the handler destroys it with an error', () =>
    hold(
      (res) => [res.end('hello'), res.destroy(new Error('now'))],
      async ({ client, received, told }) => {
        expect(textOf(await told)).toBe('hello')
        if (!client.closed) await once(client, 'close')
        expect(received()).toBe('')
      },
    ))

  // If each hold wrapped destroy() of the hold before it, some 10 000 pipelined requests would
  // overflow the stack when their client leaves.
  test('wraps destroy() of the socket once for all pipelined requests', async () => {
    const wrapped = new Set<unknown>()
    const { promise: gate, resolve: letGo } = deferred()
    let [requests, isAll] = [0, (_: Socket): void => {}]
    const all = new Promise<Socket>((resolve) => {
      isAll = resolve
    })
    await using server = await serve((req, res) => {
      new AttemptWatch(res, {
        holdsAll: false,
        maxBodyBytes: 1024,
        graceMs: 60_000,
        onEnd: () => gate.then(() => undefined),
      })
      res.end('hello')
      wrapped.add(req.socket.destroy)
      requests += 1
      if (requests === 100) isAll(req.socket)
    })
    const client = startRequest(server.port, EMPTY_POST)
    client.write(`${EMPTY_POST.join('\r\n')}\r\n\r\n`.repeat(99))
    const socket = await all
    expect(wrapped.size).toBe(1)
    client.destroy()
    letGo()
    if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
  })

  test('is destroyed without waiting for a response whose hold began after destroy()', async () => {
    const gates: Array<() => void> = []
    const socketOf: Socket[] = []
    const begun: Array<() => void> = []
    const starts = [0, 1].map(() => new Promise<void>((resolve) => begun.push(resolve)))
    await using server = await serve((req, res) => {
      socketOf.push(req.socket)
      const onEnd = () => new Promise<undefined>((resolve) => gates.push(() => resolve(undefined)))
      new AttemptWatch(res, { holdsAll: false, maxBodyBytes: 1024, graceMs: 60_000, onEnd })
      res.end(`response ${socketOf.length}`)
      begun.shift()?.()
    })
    const client = startRequest(server.port, EMPTY_POST)
    let text = ''
    client.setEncoding('latin1').on('data', (data: string) => {
      text += data
    })
    const closed = once(client, 'close')
    await starts[0]
    socketOf[0]?.destroy()
    client.write(`${EMPTY_POST.join('\r\n')}\r\n\r\n`)
    await starts[1]
    gates[0]?.()
    await closed
    expect(text).toMatch(/response 1$/)
    gates[1]?.()
  })

  test('sends nothing if a hook of an outer middleware throws', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const outer: Layer = (_req, res, next) => {
      onHeaders(res, () => {
        throw new Error('outer')
      })
      next()
    }
    await hold(
      (res) => res.end('hello'),
      async ({ release }) => expect(await release()).toBe(''),
      {
        outer,
      },
    )
    expect(warn).toHaveBeenCalledWith(expect.objectContaining({ message: 'outer' }))
    warn.mockRestore()
  })
})

describe('a response whose end is not held', () => {
  test('may have a body shorter than its Content-Length', () =>
    hold(
      (res) => res.setHeader('Content-Length', 9).end('hello'),
      async ({ told }) => expect((await told).type).toBe('not-retained'),
    ))

  test('may have been ended with the original method of Node', () =>
    hold(
      (res) => Object.getPrototypeOf(res).end.call(res, 'hello'),
      async ({ told, received, client }) => {
        if (!client.closed) await once(client, 'close')
        expect(received()).toMatch(/hello/)
        expect((await told).type).toBe('not-retained')
      },
    ))

  test('may be a 103 response before the final response', () =>
    hold(
      (res) => {
        res.writeEarlyHints({ link: '</a.css>; rel=preload' })
        res.end('hello')
      },
      async ({ client, received, told, release }) => {
        while (!received().includes('\r\n\r\n')) await once(client, 'data')
        expect(received()).toMatch(/^HTTP\/1\.1 103 Early Hints\r\n/)
        expect(statusOf(await told)).toBe(200)
        expect(await release()).toMatch(/HTTP\/1\.1 200 OK[\s\S]*hello$/)
      },
    ))
})

describe('a response that Node refuses', () => {
  test.each<[string, Handler]>([
    ['a status', (res) => Object.assign(res, { statusCode: 9999 }).end('hello')],
    ['a reason', (res) => Object.assign(res, { statusMessage: 'a\nb' }).end('hello')],
    ['a chunk', (res) => res.end(5 as never)],
    ['a chunk of a stream', (res) => res.write(5 as never)],
    ['a field', (res) => res.writeHead(200, { 'X-A': 'a\nb' }).end('hello')],
  ])('throws in the handler, whose next response is captured and sent: %s', (_, refused) =>
    hold(
      (res, ...rest) => {
        expect(() => refused(res, ...rest)).toThrow()
        Object.assign(res, { statusCode: 500, statusMessage: '' }).end('sorry')
      },
      async ({ told, release }) => {
        expect([statusOf(await told), textOf(await told)]).toEqual([500, 'sorry'])
        expect(await release()).toMatch(/^HTTP\/1\.1 500[\s\S]*sorry/)
      },
    ),
  )
})

describe('a client that leaves early', () => {
  const leave = async ({ client, res }: Held): Promise<void> => {
    client.destroy()
    await once(res, 'close')
  }

  test.each(WAYS)(
    'does not change the captured response of a handler that then responds by %s',
    (_, handler, body) =>
      hold(
        () => {},
        async (held) => {
          await leave(held)
          handler(held.res, held.res.req, held.res)
          expect(textOf(await held.told)).toBe(body)
        },
      ),
  )

  // server.setTimeout() destroys the socket from this side, and so do unreadable bytes after the
  // request.
  test.each<[string, (held: Held) => unknown]>([
    ['a timeout of the server', ({ res }) => res.req.socket.setTimeout(1)],
    ['malformed bytes', ({ client }) => client.write('nonsense\r\n\r\n')],
  ])('does not change a later response if the connection ends because of %s', (_, cut) =>
    hold(
      () => {},
      async (held) => {
        const closed = once(held.res, 'close')
        cut(held)
        await closed
        await settle()
        expect(held.ends).toEqual([])
        held.res.end('hello')
        expect(textOf(await held.told)).toBe('hello')
      },
    ),
  )

  test('does not stop a handler that has begun to write', () =>
    hold(
      (res) => res.write('hel'),
      async (held) => {
        await leave(held)
        await new Promise((resolve) => setTimeout(resolve, 2_100))
        held.res.end('lo')
        expect(textOf(await held.told)).toBe('hello')
      },
    ))

  test('ends a piped response, which is then not stored', () =>
    hold(
      (res) => new Readable({ read() {} }).pipe(Object.assign(res, { statusCode: 201 })),
      async (held) => {
        await leave(held)
        expect([(await held.told).type, statusOf(await held.told)]).toEqual(['not-retained', 201])
      },
    ))

  test('ends the attempt of a handler that streams events after a limited time', () =>
    hold(
      (res) => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders(),
      async (held) => {
        while (!held.received().includes('\r\n\r\n')) await once(held.client, 'data')
        held.res.write('data: 1\n\n')
        await leave(held)
        expect((await held.told).type).toBe('not-retained')
      },
      { graceMs: 5 },
    ))

  test('ends the attempt after a limited time even if the client left before the handler began', async () => {
    let told: Promise<AttemptEnd> | undefined
    await using server = await serve(async (_req, res) => {
      client.destroy()
      await once(res, 'close')
      told = new Promise((resolve) => {
        new AttemptWatch(res, {
          holdsAll: false,
          maxBodyBytes: 9,
          graceMs: 5,
          onEnd: async (end) => void resolve(end),
        })
      })
      left()
    })
    const { promise: gone, resolve: left } = deferred()
    const client = startRequest(server.port, ['POST / HTTP/1.1', 'Host: a'])
    await gone
    expect(await told).toEqual({ type: 'unanswered' })
  })
})

test('holds the chunks of a response as parts of the body that core gets', async () => {
  const held: unknown[] = []
  await using server = await serve(async (_req, res) => {
    const { end } = res
    const hold = new AttemptWatch(res, {
      holdsAll: true,
      maxBodyBytes: 1024,
      graceMs: 60_000,
      onEnd: () => turn(undefined),
    })
    const head = { status: 200, headers: [] }
    const body = Uint8Array.from(Buffer.from('zero one two three'))
    hold.keep('write', [Buffer.from('zero ')])
    hold.keep('write', [Buffer.from('one ')])
    // The line break is no byte of the body.
    hold.keep('write', ['dHdvIA==\n', 'base64'])
    hold.end({ type: 'complete', body, head }, [Buffer.from('three')], (calls) => {
      for (const [, [chunk]] of calls) {
        const isPart = chunk instanceof Uint8Array && chunk.buffer === body.buffer
        held.push([isPart ? Buffer.from(chunk).toString() : chunk, isPart])
      }
      Reflect.apply(end, res, [])
    })
  })
  await rawRequest(server.port, '/', [], 'POST')
  expect(held).toEqual([
    ['zero ', true],
    ['one ', true],
    ['dHdvIA==\n', false],
    ['three', true],
  ])
})

test('keeps no copy of a chunk beside the body of a held response', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const { promise: gate, resolve: letGo } = deferred()
  const { promise: arrival, resolve: arrive } = deferred<Array<WeakRef<Uint8Array>>>()
  await using server = await serve((_req, res) => {
    const hold = new AttemptWatch(res, {
      holdsAll: true,
      maxBodyBytes: 1024,
      graceMs: 60_000,
      onEnd: () => gate.then(() => undefined),
    })
    const copies = ['one ', 'two'].map((chunk) => {
      res.write(Buffer.from(chunk))
      return new WeakRef(hold.ownChunk as Uint8Array)
    })
    res.end()
    arrive(copies)
  })
  const response = rawRequest(server.port, '/', [], 'POST')
  const copies = await arrival
  await turn()
  collect()
  expect(copies.map((copy) => copy.deref())).toEqual([undefined, undefined])
  letGo()
  expect((await response).body).toContain('two')
})

test.each([true, false])(
  'restores what a layer has defined on an HTTP/2 response, configurable: %s',
  async (configurable) => {
    const found: unknown[] = []
    const server = createServer((_req, res) => {
      const parts = [
        [res.stream, 'headersSent'],
        [res, 'writableEnded'],
        [res, 'finished'],
      ] as const
      const getters = parts.map(([on, name]) => {
        const get = (): unknown => Reflect.get(Object.getPrototypeOf(on), name, on)
        Object.defineProperty(on, name, { get, configurable })
        return get
      })
      const { end } = res
      const observer = { holdsAll: false, maxBodyBytes: 1024, graceMs: 60_000 }
      const hold = new AttemptWatch(res as unknown as ServerResponse, {
        ...observer,
        onEnd: () => turn<undefined>(),
      })
      const body = Buffer.from('held')
      hold.end({ type: 'complete', body, head: { status: 200, headers: [] } }, [body], ([call]) => {
        const present = parts.map(([on, name]) => Reflect.getOwnPropertyDescriptor(on, name)?.get)
        found.push(...present.map((get, i) => get === getters[i]))
        Reflect.apply(end, res, call?.[1] ?? [])
      })
      found.push(res.writableEnded)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    try {
      expect(await text(client.request())).toBe('held')
      expect(found).toEqual([configurable, true, true, true])
    } finally {
      client.destroy()
      server.close()
    }
  },
)
