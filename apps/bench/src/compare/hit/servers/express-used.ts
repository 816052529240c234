// Express 5 with a middleware before the routes that only writes ready bytes, as a cache would.
import type { RequestListener } from 'node:http'
import express from 'express'
import { BODY, FIELDS } from '../../lib/product.ts'

export function listener(): RequestListener {
  const app = express()
  app.use((_req, res) => {
    res.writeHead(200, FIELDS)
    res.end(BODY)
  })
  return app
}
