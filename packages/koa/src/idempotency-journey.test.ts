// Koa alone in the journey of an idempotency key: mounts and uploads. The rest is in the contract
// (test/contracts/idempotency-adapters.versions.test.ts).

import { createRequire } from 'node:module'
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

describe.each(VERSIONS)('idempotency() on %s', (_, Application) => {
  test('runs the handler once for a repeated key if mounted twice', async () => {
    let runs = 0
    const once = idempotency({ scope: () => 'me' })
    const app = new Application().use(once).use(once)
    app.use((ctx) => {
      runs += 1
      ctx.body = { runs, attempt: ctx.idempotency?.number }
    })
    await using server = await serve(app.callback())
    for (let i = 0; i < 2; i += 1) {
      expect(await (await post(server.port, 'k', '7')).json()).toEqual({ runs: 1, attempt: 1 })
    }
  })

  test('fails with 500 if a parser wrote uploads to disk, where their bytes cannot be compared', async () => {
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
})
