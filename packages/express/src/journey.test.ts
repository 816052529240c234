// The whole journey in Express 4 and 5, with the real core and its memory store.

import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import type { Express, RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { fieldOf, rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const VERSIONS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

describe.each(VERSIONS)('%s', (_, express) => {
  test('many requests at once run the app once, and get the same answer', async () => {
    let runs = 0
    const app = express().use(compression(), stampedeCache({ ttlMs: 60_000 }))
    app.get('/', async (_req, res) => {
      runs += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
      Readable.from(['one ', 'run ', String(runs)]).pipe(res.type('txt'))
    })
    await using server = await serve(app)
    const url = `http://127.0.0.1:${server.port}/`
    const cold = await Promise.all(
      Array.from({ length: 50 }, async () => (await fetch(url)).text()),
    )
    expect(new Set(cold)).toEqual(new Set(['one run 1']))
    expect(runs).toBe(1)
  })

  test('a hit is answered with length, age and type, and 304 to who has it', async () => {
    const app = express().use(stampedeCache({ ttlMs: 60_000 }))
    app.get('/', (_req, res) => void res.json({ price: 7 }))
    await using server = await serve(app)
    const miss = await rawRequest(server.port)
    const hit = await rawRequest(server.port)
    expect(hit.body).toBe(miss.body)
    expect(fieldOf(hit, 'content-type')).toEqual(fieldOf(miss, 'content-type'))
    expect(fieldOf(hit, 'etag')).toEqual(fieldOf(miss, 'etag'))
    expect(fieldOf(hit, 'age')).toEqual(['0'])
    expect(fieldOf(miss, 'cache-status')[0]).toContain('fwd=uri-miss')
    expect(fieldOf(hit, 'cache-status')[0]).toContain('hit')
    const [etag = ''] = fieldOf(hit, 'etag')
    const same = await rawRequest(server.port, '/', [`If-None-Match: ${etag}`])
    expect(same.head[0]).toContain('304')
  })

  test('a stale answer is refreshed behind it through the whole app', async () => {
    let runs = 0
    let refreshed: () => void = () => {}
    const refresh = new Promise<void>((resolve) => {
      refreshed = resolve
    })
    const app = express().use(compression())
    app.use(stampedeCache({ ttlMs: 1, staleWhileRevalidateMs: 60_000, jitter: 0 }))
    app.get('/', (_req, res) => {
      runs += 1
      if (runs === 2) res.once('close', refreshed)
      res.json({ runs })
    })
    await using server = await serve(app)
    expect((await rawRequest(server.port)).body).toBe('{"runs":1}')
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect((await rawRequest(server.port)).body).toBe('{"runs":1}')
    await refresh
    await new Promise(setImmediate)
    expect((await rawRequest(server.port)).body).toBe('{"runs":2}')
  })

  test('an error of a refresh in the foreground is replaced by the stale answer', async () => {
    let broken = false
    const app = express().set('env', 'test')
    app.use(stampedeCache({ ttlMs: 1, staleIfErrorMs: 60_000, jitter: 0 }))
    app.get('/', (_req, res, next) => (broken ? next(new Error('db')) : void res.send('good')))
    await using server = await serve(app)
    expect((await rawRequest(server.port)).body).toBe('good')
    broken = true
    await new Promise((resolve) => setTimeout(resolve, 5))
    const stale = await rawRequest(server.port)
    expect(stale.head[0]).toContain('200')
    expect(stale.body).toBe('good')
    expect(fieldOf(stale, 'cache-status')[0]).toContain('stale-if-error')
  })
})
