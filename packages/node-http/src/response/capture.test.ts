// Captured responses. The client gets the same bytes as without a capture.

import type { RequestListener, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { pipeline, Readable } from 'node:stream'
import type { CapturedHead, OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { describe, expect, test } from 'vitest'
import { fieldOf, type RawResponse, rawRequest, serve } from '../testing/raw-client.ts'
import { Capture } from './capture.ts'
import { addAtHead } from './head.ts'

const captureResponse = (
  res: ServerResponse,
  observer: Omit<OriginObserver, 'ended'>,
): Promise<OriginEnd> => new Promise((ended) => new Capture(res, { ...observer, ended }))

const require = createRequire(import.meta.url)
const onHeaders: (res: ServerResponse, listener: (this: ServerResponse) => void) => void =
  require('on-headers')

type Handler = (res: ServerResponse, ...rest: Parameters<RequestListener>) => unknown

interface Captured {
  wire: RawResponse
  end: OriginEnd
  heads: CapturedHead[]
}

type HeadDecision = ReturnType<OriginObserver['onHead']>

const KEEP: HeadDecision = { action: 'send', capture: true, add: [], remove: [] }

async function capture(
  handler: Handler,
  use: {
    decide?: (head: CapturedHead, whole?: Uint8Array) => HeadDecision
    outer?: (res: ServerResponse) => void
    maxBodyBytes?: number
    method?: string
  } = {},
): Promise<Captured> {
  const heads: CapturedHead[] = []
  let ended: Promise<OriginEnd> | undefined
  await using server = await serve((req, res) => {
    use.outer?.(res)
    ended = captureResponse(res, {
      maxBodyBytes: use.maxBodyBytes ?? 1024,
      onHead(head, whole) {
        heads.push(head)
        return use.decide?.(head, whole) ?? KEEP
      },
    })
    handler(res, req, res)
  })
  const wire = await rawRequest(server.port, '/', [], use.method)
  if (ended === undefined) throw new Error('the request never came')
  return { wire, end: await ended, heads }
}

async function withoutCapture(handler: Handler, outer?: (res: ServerResponse) => void) {
  await using server = await serve((req, res) => {
    outer?.(res)
    handler(res, req, res)
  })
  return await rawRequest(server.port)
}

function failing(res: ServerResponse): ServerResponse {
  res.statusCode = 500
  return res
}

function bodyOf(end: OriginEnd): string {
  if (end.type !== 'complete') throw new Error(`not complete: ${JSON.stringify(end)}`)
  return Buffer.from(end.body).toString('latin1')
}

function headerOf(head: CapturedHead | undefined, name: string): string[] {
  return (head?.headers ?? []).filter(([n]) => n === name).map(([, value]) => value)
}

const DUPLICATES = ['X-Tag', 'a', 'X-Tag', 'b', 'Content-Type', 'text/plain']

const WAYS: ReadonlyArray<readonly [name: string, handler: Handler, body: string]> = [
  ['end with a string', (res) => res.end('hello'), 'hello'],
  ['end with an encoding', (res) => res.end('68656c6c6f', 'hex'), 'hello'],
  ['end with a callback alone', (res) => res.end(() => {}), ''],
  ['end with a string and a callback', (res) => res.end('hello', () => {}), 'hello'],
  ['write with base64', (res) => [res.write('aGVsbG8=', 'base64'), res.end()], 'hello'],
  [
    'write with a callback in second place',
    (res) => res.write('hel', () => res.end('lo')),
    'hello',
  ],
  ['a Uint8Array', (res) => res.end(new Uint8Array([104, 105])), 'hi'],
  [
    'one buffer written twice',
    (res) => {
      const buffer = Buffer.from('one ')
      res.write(buffer, () => {
        buffer.write('two ')
        res.end(buffer)
      })
    },
    'one two ',
  ],
  ['setHeader', (res) => [res.setHeader('X-A', ['1', '2']), res.end('x')], 'x'],
  [
    'appendHeader',
    (res) => [res.appendHeader('X-A', '1').appendHeader('X-A', '2'), res.end('x')],
    'x',
  ],
  ['writeHead(status)', (res) => res.writeHead(203).end('x'), 'x'],
  ['writeHead(status, message)', (res) => res.writeHead(203, 'Fine').end('x'), 'x'],
  [
    'writeHead(status, object)',
    (res) => res.writeHead(200, { 'X-A': ['1', '2'], 'X-N': 3 }).end('x'),
    'x',
  ],
  [
    'writeHead(status, message, object)',
    (res) => res.writeHead(200, 'Fine', { 'X-A': '1' }).end('x'),
    'x',
  ],
  ['writeHead(status, flat array)', (res) => res.writeHead(200, [...DUPLICATES]).end('x'), 'x'],
  [
    'writeHead(status, message, flat array)',
    (res) => res.writeHead(200, 'Fine', [...DUPLICATES]).end('x'),
    'x',
  ],
  ['flushHeaders', (res) => [res.flushHeaders(), res.end('x')], 'x'],
  ['a piped stream', (res) => void Readable.from(['a', 'b', 'c']).pipe(res), 'abc'],
  ['a pipeline', (res) => pipeline(Readable.from(['a', 'b', 'c']), res, () => {}), 'abc'],
  ['trailers', (res) => [res.write('x'), res.addTrailers({ 'X-Sum': '1' }), res.end()], 'x'],
]

describe('Capture', () => {
  describe.each([
    ['nothing set before', undefined],
    ['a header set before', (res: ServerResponse) => res.setHeader('X-Request-Id', '7')],
  ] as const)('with %s', (_, outer) => {
    test.each(WAYS)(
      'captures a response sent by %s, and changes nothing for the client',
      async (_, handler, body) => {
        const plain = await withoutCapture(handler, outer)
        const { wire, end, heads } = await capture(handler, outer ? { outer } : {})
        expect(wire).toEqual(plain)
        expect(bodyOf(end)).toBe(body)
        expect(heads).toHaveLength(1)
      },
    )
  })

  test.each<readonly [string, Handler, string | undefined]>([
    ['end with a string', (res) => res.end('hello'), 'hello'],
    ['end with an encoding', (res) => res.end('68656c6c6f', 'hex'), 'hello'],
    ['end with bytes', (res) => res.end(new Uint8Array([104, 105])), 'hi'],
    ['end alone', (res) => res.end(), ''],
    ['end with a callback', (res) => res.end(() => {}), ''],
    ['write', (res) => [res.write('hel'), res.end('lo')], undefined],
    ['writeHead', (res) => res.writeHead(200).end('hello'), undefined],
    ['flushHeaders', (res) => [res.flushHeaders(), res.end('hello')], undefined],
    ['a stream', (res) => void Readable.from(['hello']).pipe(res), undefined],
  ])(
    'passes the body on with the head only if end() is the first call that sends: %s',
    async (_, handler, expected) => {
      const seen: Array<string | undefined> = []
      await capture(handler, {
        decide(_head, whole) {
          seen.push(whole && Buffer.from(whole).toString())
          return KEEP
        },
      })
      expect(seen).toEqual([expected])
    },
  )

  test('accepts an array of pairs in writeHead', async () => {
    const handler: Handler = (res) =>
      void Reflect.apply(res.writeHead, res, [
        200,
        [
          ['X-A', '1'],
          ['Set-Cookie', 's=1'],
        ],
      ]).end('x')
    const { heads } = await capture(handler)
    expect(headerOf(heads[0], 'set-cookie')).toEqual(['s=1'])
  })

  test('captures a cookie that was only given to writeHead', async () => {
    const { heads } = await capture((res) => res.writeHead(200, { 'Set-Cookie': 'a=1' }).end())
    expect(headerOf(heads[0], 'set-cookie')).toEqual(['a=1'])
  })

  test('stores no field that an outer middleware has set and the handler left unchanged', async () => {
    const { heads, end } = await capture(
      (res) => {
        res.setHeader('Vary', 'Origin, Accept')
        res.end('x')
      },
      {
        outer(res) {
          res.setHeader('X-Request-Id', '7')
          res.setHeader('Vary', 'Origin')
        },
      },
    )
    expect(headerOf(heads[0], 'x-request-id')).toEqual(['7'])
    if (end.type !== 'complete') throw new Error(end.type)
    expect(headerOf(end.head, 'x-request-id')).toEqual([])
    expect(headerOf(end.head, 'vary')).toEqual(['Origin, Accept'])
  })

  test('adds a Date to the stored head unless the handler set one', async () => {
    const own = await capture((res) => res.setHeader('Date', 'then').end('x'))
    const none = await capture((res) => res.end('x'))
    if (own.end.type !== 'complete' || none.end.type !== 'complete') throw new Error('not complete')
    expect(headerOf(own.end.head, 'date')).toEqual(['then'])
    expect(Date.parse(headerOf(none.end.head, 'date')[0] ?? '')).not.toBeNaN()
    expect(headerOf(none.heads[0], 'date')).toEqual([])
  })

  test.each([
    ['an object', { 'Content-Type': 'text/plain' }],
    ['an array', ['Content-Type', 'text/plain']],
  ])(
    'does not store a response with %s to which an outer writeHead adds a cookie',
    async (_, headers) => {
      const addCookie = (res: ServerResponse) => {
        const { writeHead } = res
        const own = (status: number, given: object) => {
          const cookie = ['Set-Cookie', 'sid=1']
          const more = Array.isArray(given)
            ? [...given, ...cookie]
            : { ...given, 'Set-Cookie': 'sid=1' }
          return Reflect.apply(writeHead, res, [status, more])
        }
        Object.assign(res, { writeHead: own })
      }
      const { end, wire } = await capture(
        (res) => res.writeHead(200, headers as Record<string, string>).end('for one'),
        { outer: addCookie },
      )
      expect(fieldOf(wire, 'set-cookie')).toEqual(['sid=1'])
      expect(end).toEqual({ type: 'not-captured', reason: 'declined' })
    },
  )

  test('ends in the middle of the body with the reason of stop()', async () => {
    let ended: Promise<OriginEnd> | undefined
    await using server = await serve((_req, res) => {
      ended = new Promise((resolve) => {
        const observer = { maxBodyBytes: 1024, onHead: () => KEEP, ended: resolve }
        const capture = new Capture(res, observer)
        res.write('half')
        capture.stop('incomplete')
      })
      ended.then(() => res.end(' and half'))
    })
    expect((await rawRequest(server.port)).body).toContain(' and half')
    expect(await ended).toEqual({ type: 'not-captured', reason: 'incomplete' })
  })

  test('stores no field that an outer flushHeaders() adds', async () => {
    let ended: Promise<OriginEnd> | undefined
    await using server = await serve((_req, res) => {
      const { flushHeaders } = res
      res.flushHeaders = () => flushHeaders.call(res.setHeader('X-Request-Id', '7'))
      const observer = { maxBodyBytes: 1024, onHead: () => KEEP }
      ended = captureResponse(res, observer)
      res.flushHeaders()
      res.end('x')
    })
    expect(fieldOf(await rawRequest(server.port), 'x-request-id')).toEqual(['7'])
    const end = await ended
    if (end?.type !== 'complete') throw new Error(end?.type)
    expect(headerOf(end.head, 'x-request-id')).toEqual([])
  })

  test('captures fields that an inner hook adds while the head is written', async () => {
    const { heads } = await capture((res) => {
      onHeaders(res, () => res.setHeader('Set-Cookie', 'sid=1'))
      res.end('x')
    })
    expect(headerOf(heads[0], 'set-cookie')).toEqual(['sid=1'])
  })

  test('calls a wrapped writeHead of an inner middleware once', async () => {
    let calls = 0
    const { wire } = await capture((res) => {
      const { writeHead } = res
      Object.assign(res, {
        writeHead(...[status, ...rest]: unknown[]) {
          calls += 1
          return Reflect.apply(writeHead, res, [status, { 'X-Inner': 'yes' }, ...rest])
        },
      })
      res.end('x')
    })
    expect(calls).toBe(1)
    expect(fieldOf(wire, 'x-inner')).toEqual(['yes'])
    expect(fieldOf(wire, 'content-length')).toEqual(['1'])
  })

  test('ends early without the body if the response is not to be stored', async () => {
    const { end, wire } = await capture((res) => res.end('hello'), {
      decide: () => ({ ...KEEP, capture: false }),
    })
    expect(end).toEqual({ type: 'not-captured', reason: 'declined' })
    expect(wire.body).toBe('hello')
  })

  test('reports an incomplete response if the body is shorter than its Content-Length', async () => {
    const { end } = await capture((res, req) => {
      res.setHeader('Content-Length', 100)
      res.end('short')
      req.socket.end()
    })
    expect(end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  })

  test.each([204, 304])('captures a %d response without a body', async (status) => {
    const { end } = await capture((res) => res.writeHead(status, { ETag: '"1"' }).end('ignored'))
    expect(bodyOf(end)).toBe('')
  })

  test('does not take a HEAD response with a Content-Length for an incomplete one', async () => {
    const { end } = await capture((res) => res.setHeader('Content-Length', 5).end(), {
      method: 'HEAD',
    })
    expect(bodyOf(end)).toBe('')
  })

  test('asks core about the head after one that Node refused', async () => {
    const { end, heads, wire } = await capture((res) => {
      try {
        res.writeHead(200, { 'X-A': 'a\nb' })
      } catch {
        res.writeHead(500).end('sorry')
      }
    })
    expect(wire.head[0]).toContain('500')
    expect(heads).toEqual([{ status: 500, headers: [] }])
    expect(bodyOf(end)).toBe('sorry')
  })

  test('captures nothing if the head was sent before the capture', async () => {
    const { end } = await capture((res) => res.end(), { outer: (res) => res.flushHeaders() })
    expect(end).toEqual({ type: 'not-captured', reason: 'detached' })
  })

  test('captures nothing if the response is written with the original end()', async () => {
    let beneath: () => void = () => {}
    const { end } = await capture(() => beneath(), {
      outer(res) {
        const { end } = res
        beneath = () => Reflect.apply(end, res, ['written with the saved method'])
      },
    })
    expect(end).toEqual({ type: 'not-captured', reason: 'detached' })
  })

  test('applies back-pressure once the body is too large to capture', async () => {
    const more: boolean[] = []
    await capture(
      (res) => {
        // More than a socket accepts at once.
        for (let i = 0; i < 2; i++) more.push(res.write(Buffer.alloc(1_000_000)))
        res.end()
      },
      { maxBodyBytes: 1_000 },
    )
    expect(more).toEqual([false, false])
  })

  test('returns from res.write what the original method returns', async () => {
    const seen: unknown[] = []
    await capture((res) => {
      seen.push(res.write('x'), res.write(Buffer.alloc(10 * 1024 * 1024)))
      res.end()
    })
    expect(seen).toEqual([true, false])
  })
})

describe('a capture that replaces a response', () => {
  const STALE: HeadDecision = {
    action: 'replace',
    reply: {
      status: 200,
      headers: [
        ['content-type', 'text/plain'],
        ['x-tag', 'a'],
        ['x-tag', 'b'],
      ],
      body: Buffer.from('stale'),
    },
  }
  const onError = (head: CapturedHead): HeadDecision => (head.status >= 500 ? STALE : KEEP)

  const FAILURES: ReadonlyArray<readonly [string, Handler]> = [
    ['end', (res) => failing(res).setHeader('X-Bad', '1').end('oops')],
    ['write', (res) => [failing(res).write('oo'), res.end('ps')]],
    ['writeHead', (res) => res.writeHead(500, 'Bad', { 'X-Bad': '1' }).end('oops')],
    ['flushHeaders', (res) => [failing(res).flushHeaders(), res.end('oops')]],
    ['pipe', (res) => Readable.from(['oo', 'ps']).pipe(failing(res))],
  ]

  test.each(FAILURES)(
    'discards an error response sent by %s, and sends the stale response',
    async (_, handler) => {
      const { wire, end, heads } = await capture(handler, {
        decide: onError,
        outer: (res) => res.setHeader('X-Request-Id', '7'),
      })
      expect(wire.head[0]).toBe('HTTP/1.1 200 OK')
      expect(wire.body).toBe('stale')
      expect(fieldOf(wire, 'x-bad')).toEqual([])
      expect(fieldOf(wire, 'x-request-id')).toEqual(['7'])
      expect(fieldOf(wire, 'content-length')).toEqual(['5'])
      expect(fieldOf(wire, 'x-tag')).toEqual(['a', 'b'])
      expect(heads).toHaveLength(1)
      expect(end).toMatchObject({ type: 'replaced', head: { status: 500 } })
    },
  )

  test('reports the error response of the handler without fields of outer middlewares', async () => {
    const { end } = await capture((res) => failing(res).setHeader('X-Bad', '1').end('oops'), {
      decide: onError,
      outer: (res) => res.setHeader('X-Request-Id', '7'),
    })
    expect(end.type === 'replaced' && end.head.headers.map(([name]) => name)).toEqual([
      'x-bad',
      'date',
    ])
  })

  test('shares nothing if an outer middleware adds a cookie', async () => {
    const { wire, end } = await capture((res) => failing(res).end('oops'), {
      decide: onError,
      outer: (res) => addAtHead(res, [['set-cookie', 'session=1']]),
    })
    expect(wire.body).toBe('stale')
    expect(end).toEqual({ type: 'not-captured', reason: 'declined' })
  })

  // As in express-session: end() works once, and the real end may wait for the store.
  const sessionLike = (deferred: boolean) => (res: ServerResponse) => {
    const { end } = res
    let ended = false
    Object.assign(res, {
      end(...args: unknown[]) {
        if (ended) return false
        ended = true
        const real = () => Reflect.apply(end, res, args)
        return deferred ? setImmediate(real) && true : real()
      },
    })
  }

  test.each(
    FAILURES.flatMap(([name, handler]) => [
      [name, 'at once', handler, false] as const,
      [name, 'later', handler, true] as const,
    ]),
  )(
    'replaces an error sent by %s even if an outer middleware wraps end() and ends %s',
    async (_n, _w, handler, deferred) => {
      const { wire } = await capture(handler, { decide: onError, outer: sessionLike(deferred) })
      expect(wire.head[0]).toBe('HTTP/1.1 200 OK')
      expect(wire.body).toBe('stale')
    },
  )

  test('calls the callbacks of the discarded response', async () => {
    let calls = 0
    const { wire } = await capture(
      (res) => {
        res.statusCode = 500
        res.write('a', () => {
          calls += 1
          res.end('b', () => {
            calls += 1
          })
        })
      },
      { decide: onError },
    )
    expect(wire.body).toBe('stale')
    expect(calls).toBe(2)
  })

  test('sends the original response if the replacement cannot be sent', async () => {
    const { wire } = await capture((res) => res.writeHead(500).end('oops'), {
      decide: () => ({
        action: 'replace',
        reply: { status: 200, headers: [['x-a', 'a\r\nb: c']], body: undefined },
      }),
    })
    expect(wire.head[0]).toContain('500')
    expect(wire.body).toContain('oops')
  })
})
