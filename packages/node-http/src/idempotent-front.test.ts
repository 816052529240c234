// idempotentFront around plain listeners, Express and Koa: what a client that left finds later.

import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { text } from 'node:stream/consumers'
import express from 'express'
import Koa from 'koa'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { idempotentFront } from './front.ts'
import { deferred } from './testing/deferred.ts'
import { rawRequest, serve, serveHttp2, startRequest } from './testing/raw-client.ts'

const KEY = 'Idempotency-Key: k1'
const scope = (): string => 'one user'

/** Sends a POST, and leaves when the handler runs. Resolves when the handler may respond. */
async function leave(port: number, began: Promise<ServerResponse>): Promise<void> {
  const socket = startRequest(port, [
    'POST /orders HTTP/1.1',
    'Host: shop.test:8080',
    'Content-Length: 0',
    KEY,
  ])
  const res = await began
  const closed = once(res, 'close')
  socket.destroy()
  await closed
}

/** A step of a handler at which the test waits. */
function step() {
  const { promise: began, resolve: begin } = deferred<ServerResponse>()
  const { promise: gate, resolve: goOn } = deferred()
  return { began, gate, begin, goOn }
}

const again = (port: number) => rawRequest(port, '/orders', ['Content-Length: 0', KEY], 'POST')

describe('a repeat of a request whose client left before the response', () => {
  type Step = ReturnType<typeof step>
  type Handler = (req: IncomingMessage, res: ServerResponse) => unknown
  const koaApp = (at: Step, respond: (ctx: Koa.Context) => void): Handler => {
    const app = new Koa()
    app.use(async (ctx) => {
      at.begin(ctx.res)
      await at.gate
      respond(ctx)
    })
    return app.callback()
  }
  const plain =
    (at: Step, respond: (res: ServerResponse) => void): Handler =>
    async (_req, res) => {
      at.begin(res)
      await at.gate
      respond(res)
    }
  const KEPT = ['HTTP/1.1 201 Created', '{"order":7}']
  const NOT_RETAINED = [
    'HTTP/1.1 409 Conflict',
    expect.stringMatching(/"originalStatus":201,"originalLocation":"\/orders\/7"/),
  ]

  test.each<[string, (at: Step) => Handler, readonly unknown[]]>([
    [
      'gets 409, not an empty 201, if Koa sent no body',
      (at) =>
        koaApp(at, (ctx) => {
          ctx.status = 201
          ctx.set('Location', '/orders/7')
          ctx.body = { order: 7 }
        }),
      NOT_RETAINED,
    ],
    [
      'gets 409, not an empty 201, if Koa sent no body of a known length',
      (at) =>
        koaApp(at, (ctx) => {
          ctx.status = 201
          ctx.set('Location', '/orders/7')
          ctx.body = '{"order":7}'
        }),
      NOT_RETAINED,
    ],
    [
      'gets the 204 of Koa',
      (at) =>
        koaApp(at, (ctx) => {
          ctx.status = 204
        }),
      ['HTTP/1.1 204 No Content', ''],
    ],
    [
      'gets the response of Express',
      (at) =>
        express().post('/orders', async (_req, res) => {
          at.begin(res)
          await at.gate
          res.status(201).json({ order: 7 })
        }),
      KEPT,
    ],
    [
      'gets the response of a plain listener',
      (at) => plain(at, (res) => res.writeHead(201).end('{"order":7}')),
      KEPT,
    ],
    [
      'gets an empty response that says so',
      (at) => plain(at, (res) => res.writeHead(201, { 'Content-Length': 0 }).end()),
      ['HTTP/1.1 201 Created', ''],
    ],
  ])('%s', async (_, app, expected) => {
    const at = step()
    const listener = vi.fn(app(at))
    await using server = await serve(idempotentFront(listener, { scope }))
    await leave(server.port, at.began)
    at.goOn()
    const answer = async () => {
      const { head, body } = await again(server.port)
      return [head[0], body]
    }
    // Until the run has ended, a repeat gets another 409.
    await expect.poll(answer).toEqual(expected)
    expect(listener).toHaveBeenCalledTimes(1)
  })
})

describe('the listener of idempotentFront', () => {
  test('gets a 500 in place of its error, and runs again for the repeat', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warned.mockRestore())
    const listener = vi.fn(async (_req: IncomingMessage, res: ServerResponse) => {
      if (listener.mock.calls.length === 1) throw new Error('no stock')
      res.end('made')
    })
    await using server = await serve(idempotentFront(listener, { scope }))
    expect((await again(server.port)).head[0]).toBe('HTTP/1.1 500 Internal Server Error')
    expect((await again(server.port)).body).toBe('made')
    expect(warned.mock.calls.map(([text]) => text)).toEqual(['POST /orders: no stock'])
  })

  test('works on the objects of node:http2', async () => {
    let runs = 0
    const listener = (_req: Http2ServerRequest, res: Http2ServerResponse) =>
      res.writeHead(201).end(`run ${++runs}`)
    await using http2 = await serveHttp2(idempotentFront(listener, { scope }))
    const fields = { ':method': 'POST', ':path': '/orders', 'idempotency-key': 'k1' }
    for (const _ of [1, 2]) expect(await text(http2.client.request(fields).end())).toBe('run 1')
  })

  test('is required, as a function, and so is the scope', () => {
    expect(() => idempotentFront({} as never, { scope })).toThrow(
      /^idempotentFront: received an object \(Object\); pass an Express app/,
    )
    expect(() => idempotentFront(() => {}, {} as never)).toThrow(/idempotency\.scope/)
  })
})
