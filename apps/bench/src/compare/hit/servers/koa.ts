// `stampedeCache` on Koa.
import type { RequestListener } from 'node:http'
import { stampedeCache } from '@stampede/koa'
import Koa from 'koa'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const app = new Koa()
  app.use(stampedeCache({ ttlMs: 3_600_000 }))
  app.use((ctx) => {
    ctx.body = origin()
  })
  return app.callback()
}
