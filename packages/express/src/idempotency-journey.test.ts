// Express alone in the journey of an idempotency key: parsers, compression, mounts. The rest is in
// the contract (test/contracts/idempotency-adapters.versions.test.ts).

import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import type { Express, RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { idempotency, rememberRawBody } from './index.ts'

const require = createRequire(import.meta.url)
const compression: (options?: object) => RequestHandler = require('compression')
const VERSIONS: ReadonlyArray<readonly [string, (() => Express) & typeof import('express')]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

function post(port: number, key: string, body: unknown): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/payments`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': `"${key}"` },
    body: JSON.stringify(body),
  })
}

describe.each(VERSIONS)('idempotency() on %s', (_, express) => {
  const ORDERS: ReadonlyArray<readonly [string, (e: typeof express) => RequestHandler[]]> = [
    ['before the parser', (e) => [idempotency({ scope: () => 'me' }), e.json()]],
    ['after the parser', (e) => [e.json(), idempotency({ scope: () => 'me' })]],
    [
      'after a parser with rememberRawBody',
      (e) => [e.json({ verify: rememberRawBody }), idempotency({ scope: () => 'me' })],
    ],
    [
      'after compression',
      (e) => [compression({ threshold: 0 }), e.json(), idempotency({ scope: () => 'me' })],
    ],
    [
      'before compression',
      (e) => [e.json(), idempotency({ scope: () => 'me' }), compression({ threshold: 0 })],
    ],
  ]

  test.each(ORDERS)(
    'runs the handler once and sends every repeat the same response if mounted %s',
    async (_name, layers) => {
      let runs = 0
      const app = express().use(...layers(express))
      app.post('/payments', (req, res) => {
        runs += 1
        res.location('/payments/7').status(201)
        Readable.from([JSON.stringify({ run: runs, attempt: req.idempotency?.number })]).pipe(res)
      })
      await using server = await serve(app)
      for (let i = 0; i < 3; i += 1) {
        const answer = await post(server.port, 'k', { sum: 7 })
        expect([answer.status, answer.headers.get('location')]).toEqual([201, '/payments/7'])
        expect(await answer.json()).toEqual({ run: 1, attempt: 1 })
      }
      expect((await post(server.port, 'k', { sum: 8 })).status).toBe(422)
      expect(await (await post(server.port, 'l', { sum: 8 })).json()).toMatchObject({ run: 2 })
    },
  )

  test('fails with 500 and runs no handler if an earlier parser consumed and discarded the body', async () => {
    let runs = 0
    const eat: RequestHandler = (req, _res, next) => void req.resume().once('end', next)
    const app = express()
      .set('env', 'test')
      .use(eat, idempotency({ scope: () => 'me' }))
    app.post('/payments', (_req, res) => {
      runs += 1
      res.json({ runs })
    })
    await using server = await serve(app)
    expect((await post(server.port, 'k', { sum: 7 })).status).toBe(500)
    expect(runs).toBe(0)
  })

  test('runs the handler once for a repeated key if mounted twice', async () => {
    let runs = 0
    const once = idempotency({ scope: () => 'me' })
    const app = express().use(once)
    app.post('/payments', express.json(), once, (req, res) => {
      runs += 1
      res.json({ runs, attempt: req.idempotency?.number })
    })
    await using server = await serve(app)
    for (let i = 0; i < 2; i += 1) {
      const answer = await post(server.port, 'k', { sum: 7 })
      expect([answer.status, await answer.text()]).toEqual([200, '{"runs":1,"attempt":1}'])
    }
  })

  test.each(['{ }', '{\n}', '{}  '])(
    'accepts the body %j, which a parser turns into an empty object',
    async (body) => {
      const app = express()
        .set('env', 'test')
        .use(express.json(), idempotency({ scope: () => 'me' }))
      app.post('/payments', (req, res) => void res.json(req.body))
      await using server = await serve(app)
      const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': 'k' }
      const url = `http://127.0.0.1:${server.port}/payments`
      const answer = await fetch(url, { method: 'POST', headers, body })
      expect([answer.status, await answer.text()]).toEqual([200, '{}'])
    },
  )
})
