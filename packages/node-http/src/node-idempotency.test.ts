// Plain node:http, and node:http2 through its compatibility objects: the port without a framework.

import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ClientHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Attempt } from '@stampede/core'
import { describe, expect, test, vi } from 'vitest'
import { createNodeIdempotency } from './node-idempotency.ts'
import type { AttemptObserver } from './response/hold-end.ts'
import { deferred } from './testing/deferred.ts'
import { rawRequest, serve, serveHttp2 } from './testing/raw-client.ts'

type AttemptEnd = Parameters<AttemptObserver['onEnd']>[0]

type Handler = (req: IncomingMessage, res: ServerResponse) => void
type Next = (error?: unknown) => void

interface Journey {
  readonly ends: AttemptEnd[]
  readonly lines: Array<readonly string[]>
  readonly bodies: unknown[]
  readonly told: Promise<AttemptEnd>
  letGo(): void
  /** The listener of a server with this handler. */
  listener(handler: Handler, next?: (res: ServerResponse) => Next): Handler
}

type Core = Parameters<typeof createNodeIdempotency<IncomingMessage>>[0]

/** The listener of a server whose requests go through a core. `other` gets their errors. */
function listenerOf(core: Core): Journey['listener'] {
  const visit = createNodeIdempotency(core)
  return (handler, other) => (req, res) => {
    const next: Next = (error) => {
      if (error === undefined) handler(req, res)
      else other?.(res)(error)
    }
    const address = { scheme: 'http', host: 'a', target: '/' }
    const parsed = () => ({ body: undefined })
    visit({ req, res, next, native: req, address, parsed, attach: () => {} })
  }
}

function journey(graceMs = 60_000): Journey {
  const ends: AttemptEnd[] = []
  const lines: Array<readonly string[]> = []
  const bodies: unknown[] = []
  const { promise: gate, resolve: letGo } = deferred()
  const { promise: told, resolve: tell } = deferred<AttemptEnd>()
  const core: Core = {
    async handle(exchange, attach) {
      lines.push(exchange.lines('idempotency-key'))
      bodies.push(await exchange.readBody(1000))
      attach({ number: 1 } as Attempt)
      await exchange.run({
        holdsAll: false,
        maxBodyBytes: 1000,
        graceMs: graceMs,
        onEnd(end) {
          ends.push(end)
          tell(end)
          return gate.then(() => undefined)
        },
      })
    },
  }
  return { ends, lines, bodies, told, letGo, listener: listenerOf(core) }
}

function textOf(end: AttemptEnd | undefined): string {
  if (end?.type !== 'complete') throw new Error(JSON.stringify(end))
  return Buffer.from(end.body).toString()
}

async function settle(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await turn()
}

test('an error that the listener throws makes the attempt fail, and is passed on', async () => {
  const { listener, ends, letGo } = journey()
  letGo()
  const error = new Error('no')
  const listen = listener(
    () => {
      throw error
    },
    (res) => (handed) => res.end(handed === error ? 'handed on' : 'another'),
  )
  await using server = await serve(listen)
  expect((await rawRequest(server.port, '/', [], 'POST')).body).toBe('handed on')
  expect(ends).toEqual([{ type: 'failed', error }])
})

test('an error that the listener throws after its response does not change that response', async () => {
  const { listener, ends, letGo } = journey()
  letGo()
  const listen = listener((_req, res) => {
    res.end('answer')
    throw new Error('late')
  })
  await using server = await serve(listen)
  expect((await rawRequest(server.port, '/', [], 'POST')).body).toBe('answer')
  expect(ends.map(textOf)).toEqual(['answer'])
})

test('a reply of core that cannot be sent is passed on as an error, and no handler runs', async () => {
  const headers = [['x-a', 'a\nb']] as const
  const core: Core = {
    handle: async (exchange) => exchange.send({ status: 200, headers, body: undefined }),
  }
  const handler = vi.fn<Handler>()
  const listen = listenerOf(core)(handler, (res) => () => void res.writeHead(500).end())
  await using server = await serve(listen)
  expect((await rawRequest(server.port, '/', [], 'POST')).head[0]).toContain('500')
  expect(handler).not.toHaveBeenCalled()
})

test('a layer that responds during the lookup of the key makes the attempt fail', async () => {
  const { promise: ended, resolve: onEnd } = deferred<AttemptEnd>()
  const core: Core = {
    async handle(exchange) {
      await settle()
      const rules = { holdsAll: false, maxBodyBytes: 9, graceMs: 9 }
      await exchange.run({ ...rules, onEnd: async (end) => void onEnd(end) })
    },
  }
  const handler = vi.fn<Handler>()
  const listen = listenerOf(core)(handler)
  await using server = await serve((req, res) => {
    listen(req, res)
    res.writeHead(503).end()
  })
  expect((await rawRequest(server.port, '/', [], 'POST')).head[0]).toContain('503')
  expect((await ended).type).toBe('failed')
  expect(handler).not.toHaveBeenCalled()
})

describe('the idempotency middleware on HTTP/2', () => {
  interface Client {
    readonly stream: ClientHttp2Stream
    status: number | undefined
    text: string
    readonly ended: Promise<unknown>
  }

  async function open(
    listen: Handler,
    use: (post: (body?: string) => Client) => Promise<void>,
  ): Promise<void> {
    // An adapter gets the compatibility objects.
    await using http2 = await serveHttp2((req, res) => listen(req as never, res as never))
    await use((body = '') => {
      const fields = { 'idempotency-key': ['"a"', '"b, c"'] }
      const stream = http2.client.request({ ':method': 'POST', ...fields })
      stream.on('error', () => {})
      stream.end(body)
      const client: Client = {
        stream,
        status: undefined,
        text: '',
        ended: once(stream, 'close'),
      }
      stream.on('response', (head) => {
        client.status = head[':status']
      })
      stream.setEncoding('utf8').on('data', (data) => {
        client.text += data
      })
      return client
    })
  }

  const WAYS: ReadonlyArray<readonly [string, (res: ServerResponse) => unknown]> = [
    ['end', (res) => res.end('hello')],
    ['write and end', (res) => [res.write('hel'), res.end('lo')]],
    ['writeHead', (res) => [res.writeHead(201, { 'X-A': '1' }), res.end('hello')]],
    ['pipe', (res) => Readable.from(['hel', 'lo']).pipe(res)],
  ]

  test.each(WAYS)(
    'ends a response sent by %s only after the attempt has been recorded',
    (way, say) => {
      const { listener, told, letGo, lines, bodies } = journey()
      const listen = listener((_req, res) => void say(res))
      return open(listen, async (post) => {
        const client = post('body')
        const end = await told
        expect(textOf(end)).toBe('hello')
        expect(end).toMatchObject({ head: { status: way === 'writeHead' ? 201 : 200 } })
        await settle()
        expect(client.stream.readableEnded).toBe(false)
        letGo()
        await client.ended
        expect([client.status, client.text]).toEqual([way === 'writeHead' ? 201 : 200, 'hello'])
        expect(lines).toEqual([['"a"', '"b, c"']])
        expect(bodies).toEqual([{ type: 'bytes', bytes: Buffer.from('body') }])
      })
    },
  )

  test('ignores a second response of the handler', () => {
    const { listener, told, letGo } = journey()
    const seen: unknown[] = []
    const listen = listener((_req, res) => {
      res.end('first')
      seen.push(res.headersSent, res.writableEnded, res.finished)
      try {
        res.setHeader('X-A', '1')
      } catch (error) {
        seen.push(error)
      }
      res.statusCode = 500
      res.end('second', () => seen.push('called'))
    })
    return open(listen, async (post) => {
      const client = post()
      await told
      await settle()
      letGo()
      await client.ended
      expect([client.status, client.text]).toEqual([200, 'first'])
      const refused = expect.objectContaining({ code: 'ERR_HTTP2_HEADERS_SENT' })
      expect(seen).toEqual([true, true, true, refused, 'called'])
    })
  })

  test.each(WAYS)('captures a complete response sent by %s after the client has left', (_, say) => {
    const { listener, told } = journey()
    const { promise: arrival, resolve: arrive } = deferred<ServerResponse>()
    return open(
      listener((_req, res) => arrive(res)),
      async (post) => {
        const client = post()
        const res = await arrival
        const closed = once(res, 'close')
        client.stream.close(8)
        await closed
        say(res)
        expect(textOf(await told)).toBe('hello')
      },
    )
  })

  test('waits a limited time for a handler whose client has left', () => {
    const { listener, told } = journey(5)
    return open(
      listener((_req, res) => res.emit('arrived')),
      async (post) => {
        const client = post()
        await settle()
        client.stream.close(8)
        expect(await told).toEqual({ type: 'unanswered' })
      },
    )
  })
})
