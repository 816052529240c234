// Koa alone in the journey of a cached request: `ctx.state`, proxies, and properties that an app
// sets on its context. The rest is in the contract
// (test/contracts/cache-adapters.versions.test.ts).

import { createRequire } from 'node:module'
import { Router } from '@koa/router'
import { createStampede } from '@stampede/core'
import type Koa from 'koa'
import { describe, expect, test } from 'vitest'
import { rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

describe.each(VERSIONS)('stampedeCache on %s', (_, Application) => {
  function app(cache: Koa.Middleware, handler: Koa.Middleware): Koa {
    const koa = new Application()
    koa.silent = true
    return koa.use(cache).use(handler)
  }

  test('counts requests in stats().routes by the path that @koa/router matched', async () => {
    const stampede = createStampede()
    const router = new Router({ prefix: '/products' })
    router.get('/:id', (ctx) => {
      ctx.body = 'product'
    })
    const koa = app(stampedeCache({ stampede, ttlMs: 60_000 }), router.routes() as Koa.Middleware)
    await using server = await serve(koa.callback())
    for (const path of ['/products/1', '/products/1', '/none']) await rawRequest(server.port, path)
    expect(stampede.stats().routes).toMatchObject({
      '/products/:id': { hits: 1, misses: 1, bytes: 7 },
      '(http)': { misses: 1 },
    })
  })

  test('calls `tags` with ctx of the handler, also in a background refresh', async () => {
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

  test('purges a path on the host that X-Forwarded-Host of a trusted proxy names', async () => {
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
    'builds the cache key from the %s that the app defines on its context',
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
