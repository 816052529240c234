// Koa that only hands over ready bytes.
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
