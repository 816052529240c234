// idempotency() in Express 4 and 5, driven by a scripted core: features of Express alone. The rest
// is in the contract (test/contracts/idempotency-adapters.versions.test.ts).

import { once } from 'node:events'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import type { IdempotentExchange } from '@stampede/core/adapter'
import type { Express, Request, RequestHandler, Response } from 'express'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import {
  answerOf,
  post,
  runAll,
  type ScriptedCore,
  settle,
} from '../../node-http/src/testing/scripted-idempotency.ts'
import { idempotency, rememberRawBody } from './index.ts'

type AttemptEnd = Parameters<Parameters<IdempotentExchange['run']>[0]['onEnd']>[0]
type RequestBody = Awaited<ReturnType<IdempotentExchange['readBody']>>

const core = vi.hoisted((): ScriptedCore<Request> => ({ script: () => {} }))
vi.mock('@stampede/core/adapter', async (original) => ({
  ...(await original<object>()),
  createHttpIdempotency: () => ({
    handle: (...args: Parameters<typeof core.script>) => core.script(...args),
  }),
}))

afterEach(() => {
  core.script = () => {}
})

const require = createRequire(import.meta.url)

type Answer = (res: Response) => unknown

/** Ways to respond, of which each reaches the response in another way. */
const WAYS: ReadonlyArray<readonly [string, Answer]> = [
  ['send', (res) => res.send('<p>héllo</p>')],
  ['redirect', (res) => res.redirect(303, '/orders/7')],
  ['write and end', (res) => [res.write('one '), res.write(Buffer.from('two')), res.end()]],
  ['writeHead', (res) => res.writeHead(201, 'Fine', { 'X-A': 'b' }).end('own')],
  ['pipe', (res) => Readable.from(['a', Buffer.from('b'), 'c']).pipe(res)],
]

const VERSIONS: ReadonlyArray<readonly [string, (() => Express) & typeof import('express')]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

describe.each(VERSIONS)('idempotency() on %s', (_version, express) => {
  const quiet = (): Express => express().set('env', 'test')
  const protect = (): RequestHandler => idempotency({ scope: () => 'me' })
  const app = (...handlers: RequestHandler[]): Express => quiet().use(protect(), ...handlers)

  describe('a response', () => {
    test.each(WAYS)(
      'made with %s is also captured if the client has already left',
      async (_, say) => {
        const run = runAll(core)
        let arrive: (res: Response) => void = () => {}
        const arrival = new Promise<Response>((resolve) => {
          arrive = resolve
        })
        await using server = await serve(app((_req, res) => arrive(res)))
        const { client } = post(server.port)
        const res = await arrival
        client.destroy()
        await once(res, 'close')
        say(res)
        await run.told
        expect(run.ends.map(({ type }) => type)).toEqual(['complete'])
      },
    )

    test('is captured if Express itself sends it for an unknown path', async () => {
      const unhandled = runAll(core)
      await using server = await serve(app())
      expect(await post(server.port).whole()).toMatch(/^HTTP\/1\.1 404/)
      expect(unhandled.ends.map(answerOf)).toMatchObject([{ status: 404 }])
    })
  })

  describe('a request', () => {
    const echo: RequestHandler = (req, res) => {
      const body: unknown = req.body
      res.json(Buffer.isBuffer(body) ? body.toString() : (body ?? null))
    }
    const JSON_TYPE = ['Content-Type: application/json']

    test('has a body that the middleware and a later parser can both read', async () => {
      const run = runAll(core)
      await using server = await serve(app(express.json(), echo))
      expect(await post(server.port, ' {"a":1}', JSON_TYPE).whole()).toMatch(/\{"a":1\}$/)
      expect(run.bodies).toEqual([{ type: 'bytes', bytes: Buffer.from(' {"a":1}') }])
    })

    test.each<[string, (e: typeof express) => RequestHandler, string, RequestBody]>([
      ['json', (e) => e.json(), 'application/json', { type: 'parsed', value: { a: 1 } }],
      [
        'json with a stored raw body',
        (e) => e.json({ verify: rememberRawBody }),
        'application/json',
        { type: 'bytes', bytes: Buffer.from('{"a":1}') },
      ],
      ['text', (e) => e.text(), 'text/plain', { type: 'parsed', value: '{"a":1}' }],
      [
        'raw',
        (e) => e.raw(),
        'application/octet-stream',
        { type: 'bytes', bytes: Buffer.from('{"a":1}') },
      ],
      [
        'urlencoded',
        (e) => e.urlencoded({ extended: true }),
        'application/x-www-form-urlencoded',
        { type: 'parsed', value: { '{"a":1}': '' } },
      ],
      [
        'json with another content type',
        (e) => e.json(),
        'text/csv',
        { type: 'bytes', bytes: Buffer.from('{"a":1}') },
      ],
    ])(
      'has a body that the middleware knows after the parser %s',
      async (_, parser, type, body) => {
        const run = runAll(core)
        await using server = await serve(quiet().use(parser(express), protect(), echo))
        await post(server.port, '{"a":1}', [`Content-Type: ${type}`]).whole()
        expect(run.bodies).toEqual([body])
      },
    )

    test('counts as a request without a body if the client sends none, even after a parser', async () => {
      const run = runAll(core)
      await using server = await serve(quiet().use(express.json(), protect(), echo))
      await post(server.port).whole()
      expect(run.bodies).toEqual([{ type: 'none' }])
    })

    test('reaches the middleware as the client sent it, with every line of a repeated field', async () => {
      const seen: unknown[] = []
      core.script = (exchange) => {
        const { headers, ...view } = exchange.request
        seen.push(view, headers.host, exchange.lines('idempotency-key'), exchange.lines('x-none'))
        seen.push(exchange.native.baseUrl)
        return exchange.forward([['idempotency-status', 'none']])
      }
      const router = express.Router().use(protect(), (_req, res) => void res.send('ok'))
      await using server = await serve(quiet().use('/v1', router))
      const fields = ['Idempotency-Key: "a"', 'Idempotency-Key: "b, c"']
      const { head } = await rawRequest(server.port, '/v1/pay?x=1', fields, 'POST')
      expect(head).toContain('idempotency-status: none')
      expect(seen).toEqual([
        expect.objectContaining({
          method: 'POST',
          scheme: 'http',
          host: 'shop.test:8080',
          target: '/v1/pay?x=1',
        }),
        'shop.test:8080',
        ['"a"', '"b, c"'],
        [],
        '/v1',
      ])
    })
  })

  describe('the handler', () => {
    const handler = vi.fn<RequestHandler>((_req, res) => void res.send('handled'))
    afterEach(() => void handler.mockClear())

    test("does not run if the middleware's own response cannot be sent, and the client gets 500", async () => {
      core.script = (exchange) =>
        exchange.send({ status: 200, headers: [['x-a', 'a\nb']], body: undefined })
      await using server = await serve(app(handler))
      expect(await post(server.port).whole()).toMatch(/^HTTP\/1\.1 500/)
      expect(handler).not.toHaveBeenCalled()
    })

    test('does not run if another middleware responds during the lookup of the key', async () => {
      const ends: AttemptEnd[] = []
      core.script = async (exchange) => {
        await settle()
        await exchange.run({
          holdsAll: false,
          maxBodyBytes: 9,
          graceMs: 9,
          onEnd: async (end) => void ends.push(end),
        })
      }
      const timeout: RequestHandler = (_req, res, next) => {
        next()
        res.sendStatus(503)
      }
      await using server = await serve(quiet().use(timeout, protect(), handler))
      expect(await post(server.port).whole()).toMatch(/^HTTP\/1\.1 503/)
      await expect.poll(() => ends).toMatchObject([{ type: 'failed' }])
      expect(handler).not.toHaveBeenCalled()
    })
  })
})
