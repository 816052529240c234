// A client that leaves does not end a fill. A response that can no longer end does.

import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { PassThrough, pipeline, Readable } from 'node:stream'
import type { CapturedHead, OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { afterEach, expect, test, vi } from 'vitest'
import { Capture } from '../response/capture.ts'
import { deferred } from '../testing/deferred.ts'
import { serve, startRequest } from '../testing/raw-client.ts'
import { ANSWER_WITHIN_MS, WRITE_WITHIN_MS } from './client-gone.ts'

const captureResponse = (
  res: ServerResponse,
  observer: Omit<OriginObserver, 'ended'>,
): Promise<OriginEnd> => new Promise((ended) => new Capture(res, { ...observer, ended }))

const onHeaders: (res: ServerResponse, listener: () => void) => void = createRequire(
  import.meta.url,
)('on-headers')

afterEach(() => void vi.useRealTimers())

interface Abandoned {
  res: ServerResponse
  end: Promise<OriginEnd>
  heads: CapturedHead[]
  /** Resolves when the server knows that the client left. */
  leave(how?: 'fin' | 'rst'): Promise<void>
}

/** A request in its handler, and a client that can leave. */
async function open(use: (opened: Abandoned) => Promise<void>): Promise<void> {
  const heads: CapturedHead[] = []
  const { promise: arrival, resolve: arrived } = deferred<{
    res: ServerResponse
    end: Promise<OriginEnd>
  }>()
  await using server = await serve((_req, res) => {
    const end = captureResponse(res, {
      maxBodyBytes: 1024,
      onHead(head) {
        heads.push(head)
        return { action: 'send', capture: true, add: [], remove: [] }
      },
    })
    arrived({ res, end })
  })
  const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
  const { res, end } = await arrival
  const leave = async (how: 'fin' | 'rst' = 'fin'): Promise<void> => {
    const closed = once(res, 'close')
    if (how === 'fin') client.destroy()
    else client.resetAndDestroy()
    await closed
  }
  await use({ res, end, heads, leave })
  client.destroy()
}

const LATE_ANSWERS: ReadonlyArray<readonly [string, (res: ServerResponse) => unknown]> = [
  ['end', (res) => res.setHeader('X-A', '1').end('hello')],
  ['write and end', (res) => [res.setHeader('X-A', '1').write('hel'), res.end('lo')]],
  ['writeHead and end', (res) => res.writeHead(200, { 'X-A': '1' }).end('hello')],
  ['pipe', (res) => Readable.from(['hel', 'lo']).pipe(res.setHeader('X-A', '1'))],
]

test.each(LATE_ANSWERS)(
  'a response sent by %s after the client left is captured completely',
  (_, answer) =>
    open(async ({ res, end, heads, leave }) => {
      await leave()
      answer(res)
      const ended = await end
      if (ended.type !== 'complete') throw new Error(JSON.stringify(ended))
      expect(Buffer.from(ended.body).toString()).toBe('hello')
      expect(ended.head.headers).toContainEqual(['x-a', '1'])
      expect(heads).toHaveLength(1)
    }),
)

test.each(LATE_ANSWERS)(
  'a response sent by %s is captured completely even if the client left before the handler began',
  async (_, answer) => {
    const { promise: end, resolve: ended } = deferred<OriginEnd>()
    await using server = await serve((_req, res) => {
      // The client left earlier, such as during a lookup, so no `close` follows.
      res.once('close', () => {
        setImmediate(() => {
          const onHead = () => ({ action: 'send', capture: true, add: [], remove: [] }) as const
          captureResponse(res, { maxBodyBytes: 1024, onHead }).then(ended)
          answer(res)
        })
      })
      client.destroy()
    })
    const client = startRequest(server.port, ['GET / HTTP/1.1', 'Host: a'])
    const came = await end
    if (came.type !== 'complete') throw new Error(JSON.stringify(came))
    expect(Buffer.from(came.body).toString()).toBe('hello')
  },
)

const PIPES: ReadonlyArray<
  readonly [string, (source: PassThrough, res: ServerResponse) => unknown]
> = [
  ['pipe', (source, res) => source.pipe(res)],
  ['pipeline', (source, res) => pipeline(source, res, () => {})],
]

test('a cookie that an inner middleware sets is captured even after the client has left', () =>
  open(async ({ res, end, heads, leave }) => {
    onHeaders(res, () => void res.setHeader('Set-Cookie', 'sid=1'))
    await leave()
    res.end('for one')
    await end
    expect(heads[0]?.headers).toContainEqual(['set-cookie', 'sid=1'])
  }))

test('a response after a connection reset is captured completely', () =>
  open(async ({ res, end, leave }) => {
    await leave('rst')
    res.end('hello')
    expect((await end).type).toBe('complete')
  }))

test.each(PIPES)(
  'a response sent with %s is not captured if the client leaves in the middle',
  (_, start) =>
    open(async ({ res, end, leave }) => {
      const source = new PassThrough()
      start(source, res)
      source.write('some')
      await leave()
      expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
    }),
)

test.each([
  ['before', (source: PassThrough, res: ServerResponse) => source.destroy() && source.pipe(res)],
  // As `send` does for res.sendFile() and express.static().
  ['after', (source: PassThrough, res: ServerResponse) => source.pipe(res) && source.destroy()],
])('a source that is destroyed %s pipe() ends the capture if the client has left', (_, answer) =>
  open(async ({ res, end, leave }) => {
    await leave()
    answer(new PassThrough(), res)
    expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  }),
)

const DESTROYS: ReadonlyArray<readonly [string, (res: ServerResponse) => unknown]> = [
  ['res.destroy()', (res) => res.destroy()],
  ['res.destroy(error)', (res) => res.destroy(new Error('broken'))],
  ['destroying the socket', (res) => res.req.socket.destroy()],
]

test.each(DESTROYS)('%s in the handler ends the capture at once', (_, destroy) =>
  open(async ({ res, end }) => {
    res.write('some')
    destroy(res)
    expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  }),
)

const WHEN: ReadonlyArray<
  readonly [string, (res: ServerResponse, destroy: () => void) => unknown]
> = [
  // When a client leaves, Node emits `close` on the request before the response.
  ['when the request is aborted', ({ req }, destroy) => req.on('aborted', destroy)],
  ['when the client ends the connection', ({ req }, destroy) => req.socket.on('end', destroy)],
  ['after the client left', (res, destroy) => res.on('close', destroy)],
]

test.each(WHEN)('res.destroy() in the handler %s ends the capture at once', (_, when) =>
  open(async ({ res, end, leave }) => {
    when(res, () => res.destroy())
    await leave()
    expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  }),
)

test('res.destroy() after the client left ends the capture at once, also if it is wrapped', () =>
  open(async ({ res, end, leave }) => {
    const { destroy } = res
    res.destroy = (...args) => destroy.apply(res, args)
    await leave()
    res.destroy()
    expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  }))

test('a source that fails in a pipeline ends the capture at once', () =>
  open(async ({ res, end }) => {
    const source = new PassThrough()
    pipeline(source, res, () => {})
    source.destroy(new Error('disk'))
    expect(await end).toEqual({ type: 'not-captured', reason: 'incomplete' })
  }))

test('the capture ends some time after the client left if the handler writes nothing', () =>
  open(async ({ end, leave }) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    await leave()
    const settled = vi.fn()
    void end.then(settled)
    await vi.advanceTimersByTimeAsync(ANSWER_WITHIN_MS - 1)
    expect(settled).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(settled).toHaveBeenCalledWith({ type: 'not-captured', reason: 'incomplete' })
  }))

test('the capture ends sooner after the client left if the handler stops in the middle of a body', () =>
  open(async ({ res, end, leave }) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    res.write('one ')
    await leave()
    await vi.advanceTimersByTimeAsync(WRITE_WITHIN_MS - 1)
    res.write('two ')
    const settled = vi.fn()
    void end.then(settled)
    await vi.advanceTimersByTimeAsync(WRITE_WITHIN_MS - 1)
    expect(settled).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(settled).toHaveBeenCalledWith({ type: 'not-captured', reason: 'incomplete' })
  }))
