// Koa without a cache.
import type { RequestListener } from 'node:http'
import Koa from 'koa'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const app = new Koa()
  app.use((ctx) => {
    ctx.body = origin()
  })
  return app.callback()
}
