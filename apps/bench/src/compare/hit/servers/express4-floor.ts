// Express 4 with a middleware before the routes that only writes ready bytes, as a cache would.
import type { RequestListener } from 'node:http'
import express4 from 'express4'
import { BODY, FIELDS } from '../../lib/product.ts'

export function listener(): RequestListener {
  const app = express4()
  app.use((_req, res) => {
    res.writeHead(200, FIELDS)
    res.end(BODY)
  })
  return app
}
