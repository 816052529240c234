// The whole journey in Koa 2 and 3, with the real core and its memory store.

import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { createStampede } from '@stampede/core'
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

  test('is tagged by what the handler left in ctx, also behind a stale answer', async () => {
    const stampede = createStampede()
    const seen: string[] = []
    const refreshed = new Promise<void>((resolve) => {
      stampede.on('fill.committed', () => seen.length === 2 && resolve())
    })
    const tags = (ctx: Koa.Context, response: Koa.Response) => {
      seen.push(`${ctx.path}: ${response.get('x-run')}, ${response.status}`)
      return [`run:${ctx.state.run}`]
    }
    let runs = 0
    const options = { stampede, ttlMs: 60_000, staleWhileRevalidateMs: 60_000, jitter: 0 }
    const koa = app(stampedeCache({ ...options, tags }), (ctx) => {
      runs += 1
      ctx.state.run = runs
      ctx.set('x-run', String(runs))
      ctx.body = `run ${runs}`
    })
    await using server = await serve(koa.callback())
    const ask = async () => (await rawRequest(server.port, '/a')).body
    expect(await ask()).toBe('run 1')
    await stampede.purge({ tag: 'run:1' }, { soft: true })
    expect(await ask()).toBe('run 1')
    await refreshed
    expect(seen).toEqual(['/a: 1, 200', '/a: 2, 200'])
    expect(await ask()).toBe('run 2')
    await stampede.purge({ tag: 'run:2' })
    expect(await ask()).toBe('run 3')
  })

  test('is purged on the host that a trusted proxy names', async () => {
    const stampede = createStampede()
    let runs = 0
    const koa = app(stampedeCache({ stampede, ttlMs: 60_000 }), (ctx) => {
      runs += 1
      ctx.body = `run ${runs}`
    })
    koa.proxy = true
    await using server = await serve(koa.callback())
    const ask = async () =>
      (await rawRequest(server.port, '/a', ['X-Forwarded-Host: shop.test'])).body
    expect(await ask()).toBe('run 1')
    await stampede.purge({ path: '/a', host: `127.0.0.1:${server.port}` })
    expect(await ask()).toBe('run 1')
    await stampede.purge({ path: '/a', host: 'Shop.test' })
    expect(await ask()).toBe('run 2')
  })

  test.each(['host', 'protocol', 'url'])(
    'a %s of the app on its context is in the key',
    async (name) => {
      const koa = app(stampedeCache({ ttlMs: 60_000 }), (ctx) => {
        ctx.body = ctx[name]
      })
      Object.defineProperty(koa.context, name, {
        get(this: Koa.Context) {
          return `of-${this.get('x-tenant')}`
        },
      })
      await using server = await serve(koa.callback())
      const ask = async (tenant: string) =>
        (await rawRequest(server.port, '/', [`X-Tenant: ${tenant}`])).body
      expect([await ask('a'), await ask('b'), await ask('a')]).toEqual(['of-a', 'of-b', 'of-a'])
    },
  )
})
