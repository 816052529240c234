// The whole journey of idempotency keys in Koa 2 and 3, with the real core and its memory store.

import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import type Koa from 'koa'
import { describe, expect, test } from 'vitest'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { idempotency } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

function post(port: number, key: string, body: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/payments`, {
    method: 'POST',
    headers: { 'Content-Type': 'text/plain', 'Idempotency-Key': `"${key}"` },
    body,
  })
}

describe.each(VERSIONS)('%s', (_, Application) => {
  function serveApp(...middlewares: Koa.Middleware[]): ReturnType<typeof serve> {
    const app = new Application()
    app.silent = true
    app.use(idempotency({ scope: () => 'me' }))
    for (const middleware of middlewares) app.use(middleware)
    return serve(app.callback())
  }

  const BODIES: ReadonlyArray<readonly [string, (text: string) => unknown]> = [
    ['a string', (text) => text],
    ['an object', (text) => ({ text })],
    ['a stream', (text) => Readable.from([text.slice(0, 2), text.slice(2)])],
  ]

  test.each(BODIES)('%s: one run, and the same answer to each', async (_name, make) => {
    let runs = 0
    await using server = await serveApp((ctx) => {
      runs += 1
      ctx.status = 201
      ctx.set('Location', '/payments/7')
      ctx.body = make(`run ${runs} attempt ${ctx.idempotency?.attempt}`)
    })
    const first = await post(server.port, 'k', '7')
    const text = await first.text()
    expect(text).toContain('run 1 attempt 1')
    for (let i = 0; i < 2; i += 1) {
      const again = await post(server.port, 'k', '7')
      expect([again.status, again.headers.get('location')]).toEqual([201, '/payments/7'])
      expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
      expect(await again.text()).toBe(text)
    }
    expect((await post(server.port, 'k', '8')).status).toBe(422)
    expect(runs).toBe(1)
  })

  test('mounted twice, it is still one', async () => {
    let runs = 0
    const once = idempotency({ scope: () => 'me' })
    const app = new Application().use(once).use(once)
    app.use((ctx) => {
      runs += 1
      ctx.body = { runs, attempt: ctx.idempotency?.attempt }
    })
    await using server = await serve(app.callback())
    for (let i = 0; i < 2; i += 1) {
      expect(await (await post(server.port, 'k', '7')).json()).toEqual({ runs: 1, attempt: 1 })
    }
  })

  test('uploads that a parser has put on disk are not seen', async () => {
    const parsed = async (ctx: Koa.Context, next: Koa.Next): Promise<void> => {
      for await (const _ of ctx.req);
      const files = { photo: { size: 4, filepath: '/tmp/a' } }
      Object.assign(ctx.request, { body: { title: 'T' }, files })
      await next()
    }
    const app = new Application()
    app.silent = true
    app.use(parsed).use(idempotency({ scope: () => 'me' }))
    app.use((ctx) => {
      ctx.body = 'done'
    })
    await using server = await serve(app.callback())
    expect((await post(server.port, 'k', '7')).status).toBe(500)
  })

  test('an error that was thrown is kept, or may be run again', async () => {
    let runs = 0
    await using server = await serveApp((ctx) => {
      runs += 1
      ctx.throw(runs === 1 ? 500 : 422, 'no')
    })
    expect((await post(server.port, 'k', '7')).status).toBe(500)
    expect((await post(server.port, 'k', '7')).status).toBe(422)
    expect((await post(server.port, 'k', '7')).status).toBe(422)
    expect(runs).toBe(2)
  })
})
