// `collapse: 'stream'` in Koa 2 and 3, over real connections.

import { createRequire } from 'node:module'
import type Koa from 'koa'
import { describe } from 'vitest'
import { liveCases, type StartLive } from '../../node-http/src/testing/live-cases.ts'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

describe.each(VERSIONS)('%s', (_, Application) => {
  const start: StartLive = (options, run, lateCookie) => {
    const koa = new Application()
    koa.silent = true
    koa.use(async (ctx, next) => {
      await next()
      if (lateCookie) ctx.set('Set-Cookie', 'session=1')
    })
    koa.use(stampedeCache(options))
    koa.use((ctx) => {
      const { source, headers } = run()
      ctx.body = source
      ctx.set(headers)
    })
    return serve(koa.callback())
  }
  liveCases(start)
})
