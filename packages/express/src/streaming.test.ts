// `collapse: 'stream'` in Express 4 and 5, over real connections.

import { createRequire } from 'node:module'
import type { Express } from 'express'
import { describe } from 'vitest'
import { liveCases, type StartLive } from '../../node-http/src/testing/live-cases.ts'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
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

  describe('a source that is piped', () => liveCases(start('pipe')))
  describe('a handler that writes', () => liveCases(start('write')))
})
