// `collapse: 'stream'` in Express 4 and 5, over real connections.

import { createRequire } from 'node:module'
import { PassThrough } from 'node:stream'
import type { Express, RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { liveCases, type StartLive } from '../../node-http/src/testing/live-cases.ts'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const VERSIONS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

describe.each(VERSIONS)('%s', (_, express) => {
  const start =
    (how: 'pipe' | 'write'): StartLive =>
    (options, run, lateCookie) => {
      const app = express().set('env', 'test')
      app.use((_req, res, next) => {
        const { writeHead } = res
        const own = (...args: unknown[]) => {
          res.setHeader('Set-Cookie', 'session=1')
          return Reflect.apply(writeHead, res, args)
        }
        if (lateCookie) Object.assign(res, { writeHead: own })
        next()
      })
      app.use(stampedeCache(options))
      app.get('/', async (_req, res) => {
        const { source, headers } = run()
        res.set(headers)
        if (how === 'pipe') {
          source.pipe(res)
          source.once('close', () => source.readableEnded || res.destroy())
          return
        }
        try {
          for await (const chunk of source) res.write(chunk)
          res.end()
        } catch {
          res.destroy()
        }
      })
      return serve(app)
    }

  test('a compressor outside compresses it for each by itself', async () => {
    const source = new PassThrough()
    let runs = 0
    const app = express().use(compression(), stampedeCache({ ttlMs: 60_000, collapse: 'stream' }))
    app.get('/', (_req, res) => {
      runs += 1
      source.pipe(res.type('txt'))
    })
    await using server = await serve(app)
    const ask = (coding: string) =>
      fetch(`http://127.0.0.1:${server.port}/`, { headers: { 'Accept-Encoding': coding } })
    const all = [ask('gzip'), ask('gzip'), ask('identity')].map(async (asked) => {
      const response = await asked
      return [response.headers.get('content-encoding'), await response.text()]
    })
    await expect.poll(() => runs).toBe(1)
    source.write('one '.repeat(1_000))
    await new Promise((resolve) => setTimeout(resolve, 50))
    source.end('two')
    const text = `${'one '.repeat(1_000)}two`
    expect(await Promise.all(all)).toEqual([
      ['gzip', text],
      ['gzip', text],
      [null, text],
    ])
    expect(runs).toBe(1)
  })

  describe('a source that is piped', () => liveCases(start('pipe')))
  describe('a handler that writes', () => liveCases(start('write')))
})
