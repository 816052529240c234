// The whole journey in Koa 2 and 3, with the real core and its memory store.

import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import type Koa from 'koa'
import { describe, expect, test } from 'vitest'
import { fieldOf, rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

describe.each(VERSIONS)('%s', (_, Application) => {
  function app(cache: Koa.Middleware, handler: Koa.Middleware): Koa {
    const koa = new Application()
    koa.silent = true
    return koa.use(cache).use(handler)
  }

  test('many requests at once run the app once, and get the same stream', async () => {
    let runs = 0
    const koa = app(stampedeCache({ ttlMs: 60_000 }), async (ctx) => {
      runs += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
      ctx.type = 'text'
      ctx.body = Readable.from(['one ', 'run ', String(runs)])
    })
    await using server = await serve(koa.callback())
    const url = `http://127.0.0.1:${server.port}/`
    const cold = await Promise.all(
      Array.from({ length: 50 }, async () => (await fetch(url)).text()),
    )
    expect(new Set(cold)).toEqual(new Set(['one run 1']))
    expect(runs).toBe(1)
  })

  test('a stale answer is refreshed behind it through the whole app', async () => {
    let runs = 0
    let refreshed: () => void = () => {}
    const refresh = new Promise<void>((resolve) => {
      refreshed = resolve
    })
    const cache = stampedeCache({ ttlMs: 1, staleWhileRevalidateMs: 60_000, jitter: 0 })
    const koa = app(cache, (ctx) => {
      runs += 1
      if (runs === 2) ctx.res.once('close', refreshed)
      ctx.body = { runs }
    })
    await using server = await serve(koa.callback())
    expect((await rawRequest(server.port)).body).toBe('{"runs":1}')
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect((await rawRequest(server.port)).body).toBe('{"runs":1}')
    await refresh
    await new Promise(setImmediate)
    expect((await rawRequest(server.port)).body).toBe('{"runs":2}')
  })

  test('an error is replaced by the stale answer', async () => {
    let broken = false
    const cache = stampedeCache({ ttlMs: 1, staleIfErrorMs: 60_000, jitter: 0 })
    const koa = app(cache, (ctx) => {
      if (broken) ctx.throw(503)
      ctx.body = 'good'
    })
    await using server = await serve(koa.callback())
    expect((await rawRequest(server.port)).body).toBe('good')
    broken = true
    await new Promise((resolve) => setTimeout(resolve, 5))
    const stale = await rawRequest(server.port)
    expect(stale.head[0]).toContain('200')
    expect(stale.body).toBe('good')
    expect(fieldOf(stale, 'cache-status')[0]).toContain('stale-if-error')
  })
})
