// Koa with a handler that only sets ready bytes as the body.
import type { RequestListener } from 'node:http'
import Koa from 'koa'
import { BODY, FIELDS } from '../../lib/product.ts'

export function listener(): RequestListener {
  const app = new Koa()
  app.use((ctx) => {
    ctx.set(FIELDS)
    ctx.body = BODY
  })
  return app.callback()
}
