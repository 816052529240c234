// Compressors behind the cache: it stores compressed bodies, a few for all clients.

import { createRequire } from 'node:module'
import zlib from 'node:zlib'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import express, { type RequestHandler } from 'express'
import Koa, { type Middleware } from 'koa'
import { describe, expect, it } from 'vitest'
import { CLIENTS } from '../../packages/core/src/testing/accept-encodings.ts'
import { type Whole, whole } from '../../packages/testkit/src/cache-contract/bench.ts'
import { listen } from '../harness/apps.ts'

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const koaCompress: () => Middleware = require('koa-compress')

const PAGE = '<p>stampede '.repeat(500)

const FRAMEWORKS = {
  'compression on Express'(isCached: boolean, onRun: () => void) {
    const app = express()
    if (isCached) app.use(expressCache({ ttlMs: 60_000 }))
    app.use(compression())
    return app.get('/', (_req, res) => {
      onRun()
      res.send(PAGE)
    })
  },
  'koa-compress on Koa'(isCached: boolean, onRun: () => void) {
    const app = new Koa()
    if (isCached) app.use(koaCache({ ttlMs: 60_000 }))
    app.use(koaCompress())
    app.use((ctx) => {
      onRun()
      ctx.body = PAGE
    })
    return app.callback()
  },
}

const DECODERS: Readonly<Record<string, ((body: Buffer) => Buffer) | undefined>> = {
  br: zlib.brotliDecompressSync,
  gzip: zlib.gunzipSync,
  deflate: zlib.inflateSync,
  // Undefined before Node 22.15.
  zstd: (zlib as { zstdDecompressSync?: (body: Buffer) => Buffer }).zstdDecompressSync,
}

function textOf({ body, lines }: Whole): string {
  const decode = DECODERS[lines['content-encoding']?.join() ?? '']
  return String(decode?.(body) ?? body)
}

describe.each(Object.entries(FRAMEWORKS))('%s behind the cache', (_, create) => {
  it('compresses at most four bodies for 20 clients, and each gets the same coding as without a cache', async () => {
    let runs = 0
    await using cached = await listen(create(true, () => (runs += 1)))
    await using bare = await listen(create(false, () => {}))
    for (const _round of [1, 2]) {
      for (const [client, accept] of CLIENTS) {
        const request = { headers: { 'accept-encoding': accept } }
        const reply = await whole(cached.url, request)
        const expected = await whole(bare.url, request)
        expect(textOf(reply), client).toBe(PAGE)
        expect(reply.lines['content-encoding'], client).toEqual(expected.lines['content-encoding'])
        expect(reply.lines.vary, client).toEqual(['Accept-Encoding'])
      }
    }
    expect(runs).toBe(4)
  })

  it.each([
    ['gzip', 'br, gzip;q=0'],
    ['br', 'gzip, br;q=0'],
    ['br', '*, br;q=0'],
    ['zstd', 'gzip, br, zstd;q=0'],
  ])('sends no %s to a client with %s', async (refused, accept) => {
    await using app = await listen(create(true, () => {}))
    for (const each of ['gzip', 'gzip, br', 'gzip, br, zstd', 'zstd', 'br', '*', accept]) {
      await whole(app.url, { headers: { 'accept-encoding': each } })
    }
    const reply = await whole(app.url, { headers: { 'accept-encoding': accept } })
    expect(textOf(reply)).toBe(PAGE)
    expect(String(reply.lines['cache-status'])).toContain('hit')
    expect(reply.lines['content-encoding']).not.toEqual([refused])
  })

  it('sends an uncompressed body to a client without Accept-Encoding', async () => {
    await using app = await listen(create(true, () => {}))
    for (const accept of ['gzip', 'deflate', 'identity']) {
      await whole(app.url, { headers: { 'accept-encoding': accept } })
    }
    const reply = await whole(app.url)
    expect(reply.lines['content-encoding']).toBeUndefined()
    expect(String(reply.lines['cache-status'])).toContain('hit')
    expect(textOf(reply)).toBe(PAGE)
  })
})
